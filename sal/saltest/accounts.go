package saltest

import (
	"fmt"
	"hash/fnv"
	"os"

	"writ/internal/confine"
	"writ/internal/userns"
)

// Accounts are users for the processes of a suite on a host, nil if the suite may give them none. Suites that run at the same time have others,
// so that what one ends is never another's.
func Accounts(host string) *confine.Accounts {
	if os.Geteuid() != 0 {
		return nil
	}
	a := numbersOf(host, 2_060_000_000, 2048, 30_000)
	a.Top = host
	return a
}

// ContainerIDs are users for the containers of a suite on a host, likewise: of sixteen at the same time.
func ContainerIDs(host string) *confine.Accounts {
	if os.Geteuid() != 0 {
		return nil
	}
	return numbersOf(host, 700_000_000, 16*userns.Many, 1000)
}

// numbersOf is one of so many ranges of numbers.
func numbersOf(host string, first, each, ranges uint32) *confine.Accounts {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	first += h.Sum32() % ranges * each
	a, err := confine.ParseAccounts(fmt.Sprintf("%d-%d", first, first+each-1))
	if err != nil {
		panic(err) // it is a range
	}
	return a
}
