// Changes of a text that are collected first and made together: all places are those of the original.
#pragma once
#include "frontend/Source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace echelon {

/// One stretch and what takes its place.
struct TextEdit {
  uint32_t offset, length;
  std::string text;
  // Of what is added to one place: these are there once, however many edits add to it, the last between two of them.
  std::string before, after, between;
  std::string path; // of the setting that asks for it, for messages
};

TextEdit replacement(frontend::SourceRange range, const std::string &text);
/// An argument that is added at a place of the text.
TextEdit addedArgument(uint32_t offset, const std::string &before, const std::string &text, const std::string &after);

/// Takes one more: of two of one path, or stretch, the later holds. Returns why it does not go with the others, where
/// one changes a part of what another replaces, or an empty string.
std::string combine(std::vector<TextEdit> &edits, TextEdit edit);

/// The text with all edits made; what is added to one place stands there in the order given.
std::string edited(std::string text, std::vector<TextEdit> edits);

} // namespace echelon
