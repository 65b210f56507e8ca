package meant

import "strings"

// Closest returns the candidate that name was probably meant to be, "" if none is near. A candidate is near if it begins as name does, or the other
// way round, or one that a few typing mistakes lead to.
func Closest(name string, candidates []string) string {
	best, bestDistance := "", (len(name)+1)/3
	for _, candidate := range candidates {
		d := distance(strings.ToLower(name), candidate)
		if len(name) >= 3 && strings.HasPrefix(candidate, name) || len(candidate) >= 3 && strings.HasPrefix(name, candidate) {
			d = min(d, 1)
		}
		if d < bestDistance || d == bestDistance && d > 0 && best == "" {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that make b of a (optimal string alignment).
func distance(a, b string) int {
	const most = 64 // names are shorter; anything longer is no typing mistake
	if len(a) > most || len(b) > most {
		return most
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
