package why

import (
	"fmt"
	"strings"

	"writ/cmd/writ/internal/cli"
)

// groupCalls groups calls with the same state, reason and next command. The groups are in the order of their first
// calls. A run may have 2,000 calls that wait for the same resource.
func groupCalls(calls []callReasons) (groups [][]callReasons) {
	index := make(map[callReasons]int)
	for _, c := range calls {
		key := callReasons{State: c.State, Reason: c.Reason}
		i, found := index[key]
		if !found {
			i = len(groups)
			index[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// callNumbers formats the numbers of calls: "2 to 1999, 2001 and 12 others".
func callNumbers(calls []callReasons) string {
	const most = 5 // ranges
	var ranges []string
	for i := 0; i < len(calls); {
		end := i
		for end+1 < len(calls) && calls[end+1].Seq == calls[end].Seq+1 {
			end++
		}
		if len(ranges) == most {
			return fmt.Sprintf("%s and %s", strings.Join(ranges, ", "), cli.Count(len(calls)-i, "other"))
		}
		switch first, last := calls[i].Seq, calls[end].Seq; {
		case first == last:
			ranges = append(ranges, fmt.Sprint(first))
		default:
			ranges = append(ranges, fmt.Sprintf("%d to %d", first, last))
		}
		i = end + 1
	}
	return strings.Join(ranges, ", ")
}
