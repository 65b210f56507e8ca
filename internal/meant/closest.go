package meant

import "strings"

// Closest returns the candidate closest to name, or "" if none is close. A candidate is close if one of the two is a
// prefix of the other, or if they differ by a few typing errors.
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

// distance returns the number of insertions, deletions, replacements and swaps of adjacent characters that turn a into
// b (optimal string alignment).
func distance(a, b string) int {
	const most = 64 // names are shorter; a longer text is not a typing error
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
