"""Kernels broken on purpose.  Each mutation is a small change of a kernel file and the problem that has to notice it:
a device check (interpreted, races watched), a problem with more than 2³¹ elements, or one with floors of distances.

A mutation whose text is no longer in the file, or is there more often than `times`, is an error: bring it up to date.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """Replace `old` by `new` in ``kernels/<file>.cu`` (with its includes expanded).

    noticed_by : name of a device check, of a huge problem, or of one with floors
    which      : which of the places where `old` stands, from 0; it stands at `times` places
    """

    name: str
    file: str
    old: str
    new: str
    noticed_by: str
    which: int = 0
    times: int = 1

    def apply(self, source: str) -> str:
        """The broken source."""
        parts = source.split(self.old)
        if len(parts) - 1 != self.times:
            raise LookupError(f"mutation {self.name!r}: {self.old!r} stands {len(parts) - 1} times in {self.file}.cu")
        at = self.which + 1
        return self.old.join(parts[:at]) + self.new + self.old.join(parts[at:])


MUTATIONS = (
    # -- median cuts ---------------------------------------------------------------------------------------
    Mutation(
        "ties go to the last rows",
        "cuts",
        "key < border || (key == border && equals < lower - below)",
        "key < border || (key == border && equals >= lower - below)",
        "median cuts",
    ),
    Mutation("both zeros differ", "cuts", "value == 0.0f ? 0.0f : value", "value", "median cuts"),
    Mutation(
        "negative numbers above positive ones",
        "cuts",
        "bits < 0 ? ~(unsigned)bits : (unsigned)bits | 0x80000000u",
        "(unsigned)bits",
        "median cuts",
    ),
    Mutation(
        "digits counted before they are cleared",
        "cuts",
        "counts[digit] = 0;\n        __syncthreads();",
        "counts[digit] = 0;",
        "median cuts",
    ),
    Mutation(
        "digits read before they are counted",
        "cuts",
        "atomicAdd(counts + (int)(key & (DIGITS - 1)), 1);\n        }\n        __syncthreads();",
        "atomicAdd(counts + (int)(key & (DIGITS - 1)), 1);\n        }",
        "median cuts",
    ),
    Mutation(
        "a digit read before it is found",
        "cuts",
        "found[1] = lower;\n            }\n        }\n        __syncthreads();",
        "found[1] = lower;\n            }\n        }",
        "median cuts",
    ),
    Mutation(
        "rows read before all are moved",
        "cuts",
        "        equals += key == border;\n    }\n    __syncthreads();",
        "        equals += key == border;\n    }",
        "median cuts",
    ),
    Mutation(
        "categories are cut", "cuts", "work.categorical[column] ? -1.0 : sum / sample", "sum / sample", "median cuts"
    ),
    Mutation(
        "slots added before they are summed",
        "cuts",
        "half /= 2) {\n        __syncwarp();",
        "half /= 2) {",
        "median cuts",
    ),
    Mutation(
        "the last of about equal columns",
        "cuts",
        "while (spread[chosen] < (1 - 1e-9) * largest) ++chosen;",
        "while (spread[chosen] < (1 + 1e-9) * largest && chosen + 1 < work.d) ++chosen;",
        "median cuts",
    ),
    Mutation(
        "halves of the wrong size",
        "cuts",
        "Range{middle, end, units - held, leaves - left}",
        "Range{middle, end, units - held, left}",
        "median cuts",
    ),
    Mutation(
        "units forgotten",
        "cuts",
        "units * (leaves / 2) / leaves * multiple;",
        "(end - begin) * (leaves / 2) / leaves;",
        "median cuts",
    ),
    # -- places of groups ----------------------------------------------------------------------------------
    Mutation(
        "a slot too many",
        "refine_cells",
        "slot < size; ++slot",
        "slot <= size && slot < width; ++slot",
        "places of groups",
    ),
    Mutation(
        "truncated places",
        "refine_cells",
        "(int)rint(__dmul_rn(centre, finer))",
        "(int)__dmul_rn(centre, finer)",
        "places of groups",
    ),
    Mutation("half a reflection", "refine_cells", "__dmul_rn(2.0, mirror[j])", "mirror[j]", "places of groups"),
    Mutation(
        "a group too many",
        "refine_cells",
        "if (group >= groups) return;",
        "if (group > groups) return;",
        "places of groups",
    ),
    # -- the tile loop of all pairs of rows --------------------------------------------------------------
    Mutation(
        "tile read before it is complete",
        "distance",
        "            if (k0 == 0) reduction.stage(y, y_end);\n            __syncthreads();",
        "            if (k0 == 0) reduction.stage(y, y_end);",
        "nearest rows",
    ),
    Mutation(
        "tile overwritten while it is read",
        "distance",
        "            __syncthreads();  // all threads have read the tiles that are overwritten now\n",
        "",
        "nearest rows",
    ),
    Mutation(
        "tile loads one row too many",
        "distance",
        "const bool inside = first + r < end &&",
        "const bool inside = first + r <= end &&",
        "nearest rows",
    ),
    Mutation(
        "tile loads one column too many",
        "distance",
        "&& k0 + k < d;\n        tile",
        "&& k0 + k <= d;\n        tile",
        "distances",
    ),
    Mutation(
        "tile with a wrong stride", "distance", "A[(first + r) * d + k0", "A[(first + r) * (d - 1) + k0", "distances"
    ),
    Mutation(
        "shared tile too narrow",
        "distance",
        "(sizeof(real) == 4 ? 2 : 1)",
        "(sizeof(real) == 4 ? -2 : -1)",
        "distances",
    ),
    # -- reductions over pairs ---------------------------------------------------------------------------
    Mutation(
        "the last of equals is nearest",
        "distance",
        "less = value < best,",
        "less = value <= best,",
        "ties between rows",
    ),
    Mutation("ties not counted", "distance", "ties + equal", "ties", "ties between rows"),
    Mutation(
        "distances that rounding tells apart are no ties",
        "distance",
        "values[s] < floor ? floor : values[s]",
        "values[s]",
        "nearest_above_a_floor",
    ),
    Mutation(
        "the next distance is lost",
        "distance",
        "next = less ? best :",
        "next = less ? next :",
        "nearest_above_a_floor",
    ),
    Mutation(
        "the next distance is one that is equal",
        "distance",
        "!equal && value < next",
        "value < next",
        "nearest_above_a_floor",
    ),
    Mutation(
        "lists tell apart what rounding does",
        "distance",
        "fresh[s] < floor ? floor : fresh[s]",
        "fresh[s]",
        "lists_above_a_floor",
    ),
    Mutation(
        "the last of equals is furthest", "distance", "!(values[s] > best)", "!(values[s] >= best)", "ties between rows"
    ),
    Mutation(
        "list puts later rows first",
        "distance",
        "LIST_ROWS] > value; --slot",
        "LIST_ROWS] >= value; --slot",
        "ties between rows",
    ),
    Mutation("list of one row too few", "distance", "Smallest found{k, 0,", "Smallest found{k - 1, 0,", "nearest rows"),
    Mutation(
        "the last known neighbour is found again",
        "distance",
        "value == least && row <= last",
        "value == least && row < last",
        "ties between rows",
    ),
    Mutation(
        "ties of known neighbours are left out",
        "distance",
        "value < least ||",
        "value <= least ||",
        "ties between rows",
    ),
    Mutation(
        "lists written before they are complete",
        "distance",
        "{\n    __syncthreads();\n    for (int t = threadIdx.x; t < LIST_ROWS * k",
        "{\n    for (int t = threadIdx.x; t < LIST_ROWS * k",
        "nearest rows",
    ),
    Mutation(
        "lists of rows that do not exist",
        "distance",
        "if (first + r >= n) return;",
        "if (first + r > n) return;",
        "nearest rows",
    ),
    Mutation(
        "Gower adds with the wrong sign",
        "distance",
        "value - w : value",
        "value + w : value",
        "distances of mixed rows",
    ),
    Mutation(
        "stretch runs past the last row",
        "distance",
        "m - begin < stretch ? m : begin + stretch",
        "begin + stretch",
        "nearest rows",
    ),
    Mutation(
        "32-bit index of a pair",
        "distance",
        "Y[index[first + r] * d + k0 + k]",
        "Y[(int)index[first + r] * d + k0 + k]",
        "distance_from_a_far_row",
    ),
    Mutation(
        "32-bit index of a matrix",
        "distance",
        "out[(x + s) * rows + row]",
        "out[(int)(x + s) * (int)rows + row]",
        "far_corner_of_a_matrix",
    ),
    # -- affinity ----------------------------------------------------------------------------------------
    Mutation("affinity with itself", "affinity", "other == row ? real(0) : exp", "exp", "affinities"),
    Mutation(
        "affinity grows with distance", "affinity", "exp(-gamma * distance)", "exp(gamma * distance)", "affinities"
    ),
    Mutation("degrees of rows of the next part", "affinity", "if (row < end) out[row]", "out[row]", "affinities"),
    Mutation(
        "degrees count rows that do not exist",
        "affinity",
        "part += s < count ? map(values[s], y + s) : real(0)",
        "part += map(values[s], y + s)",
        "affinities",
    ),
    # -- kernel PCA --------------------------------------------------------------------------------------
    Mutation("power one too low", "kernel_pca", "left > 0; left >>= 1", "left > 1; left >>= 1", "kernel projections"),
    Mutation("constant forgotten", "kernel_pca", "real base = dot + constant", "real base = dot", "kernel projections"),
    Mutation(
        "vectors of rows that do not exist",
        "kernel_pca",
        "y + s < end && first + c < q",
        "first + c < q",
        "kernel projections",
    ),
    Mutation("more vectors than there are", "kernel_pca", "if (first + c < q) out", "out", "kernel projections"),
    # -- random numbers ----------------------------------------------------------------------------------
    Mutation("nine rounds", "random", "round < 10", "round < 9", "random words"),
    Mutation("keys swapped", "random", "k0 += 0x9E3779B9u", "k0 += 0xBB67AE85u", "random words"),
    Mutation("one bit too few", "random", "low >> 12", "low >> 13", "random words"),
    Mutation("both tails above", "random", "q < 0.0 ? -x : x", "x", "normal numbers"),
    Mutation(
        "a product fused with its sum",
        "random",
        "rounded_sum(rounded_product(value, x), coefficients[i])",
        "fma(value, x, coefficients[i])",
        "normal numbers",
    ),
    Mutation(
        "one number too many",
        "random",
        "    if (i >= n * count) return;",
        "    if (i > n * count) return;",
        "random words",
        times=3,
    ),
    Mutation(
        "32-bit count of words",
        "random",
        "const long long i = (long long)blockIdx.x * 256",
        "const int i = blockIdx.x * 256",
        "far_random_words",
        1,
        5,
    ),
    # -- segments ----------------------------------------------------------------------------------------
    Mutation("one row of lanes left out", "segment", "k < abreast; ++k", "k + 1 < abreast; ++k", "extremes of parts"),
    Mutation(
        "runs that do not exist",
        "segment",
        "    if (stretch >= stretches) return;  // the whole warp\n",
        "",
        "sums of parts",
        1,
        2,
    ),
    Mutation(
        "sums halved before they are complete",
        "segment",
        "half /= 2) {\n            __syncwarp();",
        "half /= 2) {",
        "sums of parts",
    ),
    Mutation(
        "a slot left out",
        "segment",
        "sum_every(X, order, begin + slot, end, ADDERS,",
        "sum_every(X, order, begin + slot + 1, end, ADDERS,",
        "sums of parts",
    ),
    Mutation(
        "maximum begins at zero",
        "segment",
        "return real(-__int_as_float(0x7f800000))",
        "return real(0)",
        "extremes of parts",
    ),
    Mutation(
        "32-bit index of a row",
        "segment",
        "(order ? order[r] : r) * d",
        "(int)(order ? order[r] : r) * d",
        "sums_of_far_rows",
        1,
        2,
    ),
    Mutation(
        "covariance about another centre", "segment", "owner[stretch] * d", "owner[0] * d", "covariances of parts"
    ),
    # -- Rosenblatt --------------------------------------------------------------------------------------
    Mutation(
        "posterior with the wrong sign", "rosenblatt", "- 0.5 * z * z", "+ 0.5 * z * z", "conditional distributions"
    ),
    Mutation(
        "posterior without the determinant",
        "rosenblatt",
        "(double)mixture.log_diagonal[l * d + j] - 0.5",
        "-0.5",
        "conditional distributions",
    ),
    Mutation(
        "state not begun", "rosenblatt", "        state.total[j * apart] = 0.0;\n", "", "conditional distributions"
    ),
    Mutation(
        "samples of the next part",
        "rosenblatt",
        "sample >= rows[part + 1]",
        "sample > rows[part + 1]",
        "conditional distributions",
    ),
    Mutation(
        "triangular solve one short",
        "rosenblatt",
        "for (int i = 0; i < j; ++i) z",
        "for (int i = 1; i < j; ++i) z",
        "conditional distributions",
    ),
    # -- empirical inverse -------------------------------------------------------------------------------
    Mutation(
        "quantile one place late",
        "empirical_inverse",
        "(double)(high - low))) - 1;",
        "(double)(high - low)));",
        "empirical inverse",
    ),
    Mutation(
        "weights counted from the start of the table",
        "empirical_inverse",
        "target = running[low] + ",
        "target = ",
        "empirical inverse",
    ),
    Mutation(
        "stretch of equals one short",
        "empirical_inverse",
        "(AFTER && column[middle] == v)",
        "false",
        "empirical inverse",
    ),
    Mutation(
        "32-bit index of a column",
        "empirical_inverse",
        "sorted + j * n",
        "sorted + j * (int)n",
        "far_columns_of_a_sorted_table",
    ),
    # -- k-member and MDAV -------------------------------------------------------------------------------
    Mutation(
        "warps do not wait for each other",
        "kmember",
        "    __syncthreads();\n    const int slot",
        "    const int slot",
        "k-member groups of mixed rows",
    ),
    Mutation(
        "meeting places do not take turns",
        "kmember",
        "(meeting.turn++ & 1) * WARP",
        "0",
        "k-member groups of mixed rows",
    ),
    Mutation(
        "ties to the higher row",
        "kmember",
        "value == best.value && row < best.row",
        "value == best.value && row > best.row",
        "k-member groups of mixed rows",
    ),
    Mutation(
        "sums do not run on",
        "kmember",
        "part.sum[row] + from_member[r]",
        "from_member[r]",
        "k-member groups of mixed rows",
    ),
    Mutation("taken rows stay free", "kmember", "    part.far[row] = -1;\n", "", "k-member groups of mixed rows"),
    Mutation(
        "leftovers before the sums are there",
        "kmember",
        "        part.sum[row] = from_later;\n    }\n    __syncthreads();",
        "        part.sum[row] = from_later;\n    }",
        "k-member groups",
    ),
    Mutation(
        "32-bit index of a part's column",
        "kmember",
        "x[j * n + row]",
        "x[(int)(j * n) + row]",
        "far_parts_of_a_partition",
    ),
    Mutation(
        "clusters that grew are dearer",
        "kmember",
        "(size * (size + 1))",
        "1",
        "k-member groups with leftovers",
    ),
    Mutation(
        "leftovers without the pairs of their cluster",
        "kmember",
        "(size * sum - part.pairs[cluster])",
        "(size * sum)",
        "k-member groups with leftovers",
    ),
    Mutation(
        "32-bit squares",
        "kmember",
        "return (long long)e * e;",
        "return e * e;",
        "k-member groups",
    ),
    Mutation(
        "32-bit sums of distances",
        "kmember",
        "const long long sum = seed",
        "const int sum = seed",
        "k-member groups",
    ),
    Mutation(
        "categories that are one apart",
        "kmember",
        "e != 0 ? mismatch : 0",
        "e != 0 ? 1 : 0",
        "k-member groups of mixed rows",
    ),
    Mutation(
        "state of rows over their columns",
        "kmember",
        "reinterpret_cast<int*>(shared + 2 * size)",
        "reinterpret_cast<int*>(shared + size)",
        "k-member groups",
    ),
    Mutation(
        "sums before they are complete",
        "mdav",
        "    __syncthreads();  // the sums are complete\n",
        "",
        "MDAV groups",
    ),
    Mutation(
        "counts before they are complete",
        "mdav",
        "    __syncthreads();  // the counts are complete\n",
        "",
        "MDAV groups of mixed rows",
    ),
    Mutation(
        "mean before it is complete",
        "mdav",
        "    __syncthreads();  // the mean is complete\n",
        "",
        "MDAV groups",
    ),
    Mutation("mean rounded to the grid", "mdav", "- 2 * shifts[r]", "", "MDAV groups of tied rows"),
    Mutation("rest counted once", "mdav", "- 2 * shifts[r]", "- shifts[r]", "MDAV groups of tied rows"),
    Mutation(
        "32-bit products with the number of rows",
        "mdav",
        "(long long)left * x[rows[r]] - total",
        "left * x[rows[r]] - total",
        "MDAV groups of mixed rows",
    ),
    Mutation(
        "the last of equal modes",
        "mdav",
        "consider<true>(best, levels.counts[j * levels.n + level], level)",
        "consider<true>(best, 2 * levels.counts[j * levels.n + level] + (level & 1), level)",
        "MDAV groups of tied rows",
    ),
    Mutation("three k is two groups too late", "mdav", "left >= 3 * k", "left > 3 * k", "MDAV groups of mixed rows"),
    Mutation(
        "levels counted without atomics",
        "mdav",
        "atomicAdd(levels.counts + j * levels.n + levels.of[j * levels.n + row], 1)",
        "levels.counts[j * levels.n + levels.of[j * levels.n + row]] += 1",
        "MDAV groups of mixed rows",
    ),
    Mutation("sums keep what was taken", "mdav", "part.total[j] -= part.x[j * part.stride + row];", "", "MDAV groups"),
    # -- optimal groups of one column ----------------------------------------------------------------------
    Mutation(
        "edges before they are measured",
        "univariate",
        "infinity();\n        }\n        __syncthreads();\n        for (int e = warp",
        "infinity();\n        }\n        for (int e = warp",
        "optimal groups of one column",
    ),
    Mutation(
        "edges measured while they are read",
        "univariate",
        "            }\n        }\n        __syncthreads();\n    }\n}\n\n// Before any step",
        "            }\n        }\n    }\n}\n\n// Before any step",
        "optimal groups of one column",
    ),
    Mutation(
        "ties to the larger edge",
        "univariate",
        "other == length && its_edge < edge",
        "other == length && its_edge > edge",
        "optimal groups of one column",
    ),
    Mutation(
        "errors that are not divided",
        "univariate",
        "return (double)error / (double)m;",
        "return (double)error;",
        "optimal groups of one column",
    ),
    Mutation(
        "squares of the first values",
        "univariate",
        "m * apart(squares[first + m], squares[first])",
        "m * squares[first + m]",
        "optimal groups of one column",
    ),
    Mutation(
        "32-bit totals",
        "univariate",
        "const long long total = apart",
        "const int total = (int)apart",
        "optimal groups of one column",
    ),
    Mutation(
        "features of one column only",
        "univariate",
        "const long long* column = sums + f * (n + 1) + first;",
        "const long long* column = sums + first;",
        "optimal groups of one column",
    ),
    Mutation(
        "paths that do not begin",
        "univariate",
        "at == entry + e ? 0.0 : best.length",
        "best.length",
        "optimal groups of one column",
    ),
    Mutation(
        "groups past the end of the column",
        "univariate",
        " && chunk.begin + at <= column.n",
        "",
        "optimal groups of one column",
    ),
    Mutation(
        "last entries not reached",
        "univariate",
        "k, chunk.size + span - 1, ring",
        "k, chunk.size + span - 2, ring",
        "optimal groups of one column",
    ),
    Mutation(
        "lengths of chunks do not take turns",
        "univariate",
        "best + (~chunk & 1) * entries",
        "best + (chunk & 1) * entries",
        "optimal groups of one column",
    ),
    Mutation(
        "chunks before the lengths are there",
        "univariate",
        "= found.edge;\n        }\n        __syncthreads();",
        "= found.edge;\n        }",
        "optimal groups of one column",
    ),
    Mutation(
        "path back from the wrong entry",
        "univariate",
        "entry[chunks] = 0;",
        "entry[chunks] = 1;",
        "optimal groups of one column",
    ),
    Mutation(
        "steps of the chunk before",
        "univariate",
        "steps += begin + (long long)blockIdx.x * 2 * k;",
        "steps += begin;",
        "optimal groups of one column",
    ),
    # -- refinement --------------------------------------------------------------------------------------
    Mutation(
        "asked before all have forgotten",
        "refine",
        "asked_by[own] = -1;\n        __syncthreads();",
        "asked_by[own] = -1;",
        "exchanges between groups",
    ),
    Mutation(
        "pairs before all have asked",
        "refine",
        "        __syncthreads();\n        const double cooled",
        "        const double cooled",
        "exchanges between groups",
    ),
    Mutation(
        "forgotten while pairs are at work",
        "refine",
        "        }\n        __syncthreads();\n    }\n    if (threadIdx.x % WARP == 0) change",
        "        }\n    }\n    if (threadIdx.x % WARP == 0) change",
        "exchanges between groups",
    ),
    Mutation(
        "the first that asks is taken",
        "refine",
        "atomicMax(asked_by + mate, own)",
        "atomicCAS(asked_by + mate, -1, own)",
        "exchanges between groups",
    ),
    Mutation(
        "lanes weigh before the rows are there",
        "refine",
        "rows_b[s - n_a]) * d + j];\n    }\n    __syncwarp();",
        "rows_b[s - n_a]) * d + j];\n    }",
        "exchanges between groups",
    ),
    Mutation(
        "rows weighed before the sums are there",
        "refine",
        "        pair.totals[t] = total;\n    }\n    __syncwarp();",
        "        pair.totals[t] = total;\n    }",
        "exchanges between groups",
    ),
    Mutation(
        "squares added before the sums are there",
        "refine",
        "pair.n_b * squares_b;\n    __syncwarp();",
        "pair.n_b * squares_b;",
        "exchanges between groups",
    ),
    Mutation(
        "squares of the other group",
        "refine",
        "pair.in[s] += s < pair.n_a ? squares_a : squares_b;",
        "pair.in[s] += s < pair.n_a ? squares_b : squares_a;",
        "exchanges between groups",
    ),
    Mutation(
        "distances of a row from one row of the group",
        "refine",
        "n * square - 2 * product",
        "square - 2 * product",
        "exchanges between groups",
    ),
    Mutation(
        "one total for both groups",
        "refine",
        "pair.totals + t % 2 * d;",
        "pair.totals;",
        "exchanges between groups",
    ),
    Mutation(
        "a swap forgets what the two rows shared",
        "refine",
        "change - (n_a + n_b) * distance<GOWER>",
        "change - 0 * distance<GOWER>",
        "exchanges of mixed rows",
    ),
    Mutation(
        "categories that differ are equal",
        "refine",
        "e != 0 ? mismatch",
        "e != e ? mismatch",
        "exchanges of mixed rows",
    ),
    Mutation(
        "of equal exchanges any",
        "refine",
        "(other == value && its_code < code)",
        "(other == value && its_code > code)",
        "exchanges of mixed rows",
    ),
    Mutation(
        "a group that gains a row does not grow",
        "refine",
        "/ (double)(m + 1)",
        "/ (double)m",
        "exchanges between groups",
    ),
    Mutation(
        "groups fall below k",
        "refine",
        "pair.n_b > k &&",
        "pair.n_b >= k &&",
        "exchanges of mixed rows",
    ),
    Mutation(
        "groups outgrow their line",
        "refine",
        "&& pair.n_b < width",
        "&& pair.n_b <= width",
        "exchanges between groups",
    ),
    Mutation(
        "a move leaves a gap",
        "refine",
        "source[slot] = source[--size_source]",
        "--size_source",
        "exchanges between groups",
    ),
    Mutation(
        "heat does not fall",
        "refine",
        "1.0 - (double)(first + step)",
        "1.0 - (double)first",
        "exchanges between groups",
    ),
    Mutation(
        "coins of another turn",
        "refine",
        "<< 16) + turn + 1)",
        "<< 16) + 1)",
        "exchanges between groups",
    ),
    Mutation(
        "32-bit index of a member",
        "refine",
        "x[(s < n_a ? rows_a[s] : rows_b[s - n_a]) * d + j]",
        "x[(int)(s < n_a ? rows_a[s] : rows_b[s - n_a]) * d + j]",
        "far_members_of_groups",
    ),
    Mutation(
        "lists not begun",
        "refine_neighbours",
        "= NOBODY;",
        "= 0;",
        "exchanges between groups",
    ),
    Mutation(
        "a group is its own neighbour",
        "refine_neighbours",
        "if (other != own) nearest",
        "nearest",
        "exchanges between groups",
    ),
    Mutation(
        "places mixed with the last bits of distances",
        "refine_neighbours",
        " & ~mask) | place",
        ") | place",
        "exchanges between groups",
    ),
    Mutation(
        "32-bit index of a centre's column",
        "refine_neighbours",
        "x[j * n + row]",
        "x[(int)(j * n) + row]",
        "far_cells_of_groups",
    ),
)
