"""Two machines of one core each on this one, with a network cable of a given rate between them.

Each has its own network (a namespace of the kernel) and host name. A pair of virtual Ethernet devices joins them; what
each sends is shaped by tc's token bucket. Open MPI sees two hosts: it starts its daemon on the second through an agent,
as through ssh, and has no way between the ranks but TCP over the cable. Rank 0 and all that works for it are bound to
one core, rank 1 to another; so is the kernel's work for what each receives.

All processes of a rig are in one PID namespace, whose first process ends with the one that made the rig, however that
ends, and the kernel then ends the others; namespaces, devices and shaping have no names outside, and go with them.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

PACKAGES = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux",
            "taskset": "util-linux", "mpirun": "openmpi-bin"}
DEVICE = "wire"
HOSTS = ("10.77.0.1", "10.77.0.2")
UNITS = {"Mb/s": 1e6, "Gb/s": 1e9}


def rate(text):
    """Bits a second of a rate as specs write it: 1Gb/s, 100Mb/s."""
    found = re.fullmatch(r"([\d.]+) *(Mb/s|Gb/s)", text)
    if not found:
        raise ValueError(f"a rate is written 1Gb/s or 100Mb/s, not {text}")
    return float(found[1]) * UNITS[found[2]]


class Rig:
    """with Rig(1e9) as rig: rig.run([program, …])"""

    def __init__(self, bits, settings=()):
        """`settings` are Open MPI's: ("btl_tcp_eager_limit=65536", …)."""
        self.bits, self.settings = bits, settings
        self.held = self.folder = None

    def __enter__(self):
        if missing := self._missing():
            refuse(missing)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that __exit__ runs
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.held:
            self.held.stdin.close()  # the first process ends, and with it all
            self.held.wait()
        if self.folder:
            self.folder.cleanup()

    @staticmethod
    def _missing():
        if os.geteuid() != 0:
            return "it needs root, to make namespaces and to shape a network"
        gone = {package for tool, package in PACKAGES.items() if not shutil.which(tool)}
        if gone:
            return "it needs packages that are not installed: apt-get install " + " ".join(sorted(gone))
        if len(os.sched_getaffinity(0)) < 2:
            return "it needs two cores"
        return ""

    def _make(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rig")
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.held = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts",
                                      "sh", "-c", "hostname left && echo && exec cat"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        if not self.held.stdout.readline():
            refuse("the kernel gives it no namespaces (unshare)")
        process = self.held.pid
        self.left = ["nsenter", f"--target={process}", "--mount", "--net", "--uts",
                     f"--pid=/proc/{process}/ns/pid_for_children"]
        other = subprocess.Popen([*self.left, "unshare", "--net", "--uts", "sh", "-c",
                                  "hostname right && echo $$ && exec sleep infinity"],
                                 stdout=subprocess.PIPE, text=True, start_new_session=True)
        number = other.stdout.readline().strip()
        self.right = [*self.left, "nsenter", f"--target={number}", "--net", "--uts"]
        self._set("left", "ip", "link", "add", DEVICE, "type", "veth", "peer", "name", DEVICE, "netns", number)
        for side, host, core in zip(("left", "right"), HOSTS, self.cores):
            self._set(side, "ip", "address", "add", f"{host}/24", "dev", DEVICE)
            self._set(side, "ip", "link", "set", "lo", "up")
            self._set(side, "ip", "link", "set", DEVICE, "up")
            # A packet that the device would cut into frames, up to 64 KB, passes whole: the bucket holds two.
            self._set(side, "tc", "qdisc", "add", "dev", DEVICE, "root", "tbf", "rate", f"{self.bits:.0f}bit", "burst",
                      "128kb", "limit", "8mb")
            self._set(side, "sh", "-c", "mount -t sysfs sysfs /sys && "
                      f"echo {1 << core:x} > /sys/class/net/{DEVICE}/queues/rx-0/rps_cpus")
        agent = pathlib.Path(self.folder.name) / "agent"
        agent.write_text(f"#!/bin/sh\nshift\nexec nsenter --target={number} --net --uts taskset -c {self.cores[1]} "
                         'sh -c "$*"\n')
        agent.chmod(0o755)
        self.agent = agent

    def _set(self, side, *command):
        done = subprocess.run([*getattr(self, side), *command], capture_output=True, text=True)
        if done.returncode != 0:
            refuse(f"`{' '.join(command)}` failed: {done.stderr.strip()}")

    def sent(self):
        """Bytes that have gone over the cable, to the right and to the left, as the devices count them."""
        shown = subprocess.run([*self.left, "ip", "-s", "-j", "link", "show", DEVICE], capture_output=True, text=True,
                               check=True)
        counted = json.loads(shown.stdout)[0]["stats64"]
        return counted["tx"]["bytes"], counted["rx"]["bytes"]

    def run(self, program, *settings):
        """What a program prints that runs on both, a rank on each; `settings` as those of the rig. It must end well."""
        mca = {"plm_rsh_agent": self.agent, "orte_tmpdir_base": self.folder.name, "oob_tcp_if_include": DEVICE,
               "btl_tcp_if_include": DEVICE, "btl": "tcp,self", "pml": "ob1"}
        mca |= dict(setting.split("=", 1) for setting in (*self.settings, *settings))
        command = [*self.left, "taskset", "-c", str(self.cores[0]), "mpirun", "--allow-run-as-root", "--bind-to",
                   "none", "--host", ",".join(HOSTS), "-n", "2"]
        for name, value in mca.items():
            command += ["--mca", name, str(value)]
        before = self.sent()
        done = subprocess.run([*command, *map(str, program)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{program[0]}: {done.stdout[-2000:]}{done.stderr}")
        if min(after - earlier for after, earlier in zip(self.sent(), before)) == 0:
            sys.exit("nothing went over the cable: the ranks have found another way")
        return done.stdout


def refuse(reason):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: the rig of two machines cannot be set up: {reason}")
