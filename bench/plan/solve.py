"""Constants from measurements: Gauss-Newton on the logarithms of times, weighted so that outliers count as in a mean of
absolute errors, inside bounds. Standard library only: systems have some thirty unknowns."""
from math import exp, log


def solved(matrix, right):
    """x of matrix x = right, by elimination with the largest pivot."""
    n = len(right)
    rows = [list(r) + [b] for r, b in zip(matrix, right)]
    for i in range(n):
        best = max(range(i, n), key=lambda j: abs(rows[j][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for j in range(i + 1, n):
            factor = rows[j][i] / rows[i][i]
            if factor:
                for k in range(i, n + 1):
                    rows[j][k] -= factor * rows[i][k]
    x = [0.0] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][k] * x[k] for k in range(i + 1, n))) / rows[i][i]
    return x


def loss(errors, weights):
    return sum(w * abs(e) for e, w in zip(errors, weights)) / sum(weights)


def fit(errors_of, start, bounds, weights=None, rounds=12, least=0.01, step=0.02, told=None):
    """Constants (a dict) that make the weighted mean of |errors| small. `errors_of(constants)` gives log(predicted /
    measured) of each row; constants are positive, and moved in their logarithms. One that ends at a bound is not known."""
    names, now = list(start), dict(start)
    errors = errors_of(now)
    weights = weights or [1.0] * len(errors)
    damping = 1e-3
    for turn in range(rounds):
        slopes = []
        for name in names:
            low, high = bounds[name]
            up = now[name] * exp(step) <= high
            moved = errors_of({**now, name: now[name] * exp(step if up else -step)})
            slopes.append([(m - e) / (step if up else -step) for m, e in zip(moved, errors)])
        w = [weight / max(abs(e), least) for e, weight in zip(errors, weights)]
        square = [[sum(wi * x * y for wi, x, y in zip(w, a, b)) for b in slopes] for a in slopes]
        right = [-sum(wi * x * e for wi, x, e in zip(w, a, errors)) for a in slopes]
        before, better = loss(errors, weights), None
        while damping < 1e4:
            damped = [[v + (damping * square[i][i] + 1e-9 if i == j else 0) for j, v in enumerate(row)]
                      for i, row in enumerate(square)]
            change = solved(damped, right)
            tried = {name: min(max(now[name] * exp(max(-0.5, min(0.5, c))), bounds[name][0]), bounds[name][1])
                     for name, c in zip(names, change)}
            result = errors_of(tried)
            if loss(result, weights) < before:
                better = tried, result
                break
            damping *= 4
        if not better:
            break
        now, errors = better
        damping = max(damping / 8, 1e-4)
        if told:
            told(turn, loss(errors, weights), now)
        if before - loss(errors, weights) < 1e-5 * before:
            break
    return now
