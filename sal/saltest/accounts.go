package saltest

import (
	"fmt"
	"hash/fnv"
	"os"

	"writ/internal/confine"
)

// Accounts are users for the processes of an exam on a host, nil if the exam may give them none. Exams that run at the same time have others,
// so that what one ends is never another's.
func Accounts(host string) *confine.Accounts {
	if os.Geteuid() != 0 {
		return nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	const each, ranges = 2048, 30_000
	first := 2_060_000_000 + h.Sum32()%ranges*each
	a, err := confine.ParseAccounts(fmt.Sprintf("%d-%d", first, first+each-1))
	if err != nil {
		panic(err) // it is a range
	}
	a.Top = host
	return a
}
