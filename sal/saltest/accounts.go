package saltest

import (
	"fmt"
	"hash/fnv"
	"os"

	"writ/internal/confine"
	"writ/internal/userns"
)

// Accounts returns users for the processes of a suite on a host, or nil if the test does not run as root. Concurrent
// suites get different users, so that no suite ends the processes of another suite.
func Accounts(host string) *confine.Accounts {
	if os.Geteuid() != 0 {
		return nil
	}
	a := numbersOf(host, 2_060_000_000, 2048, 30_000)
	a.Top = host
	return a
}

// ContainerIDs returns user IDs for up to sixteen concurrent containers of a suite on a host. It returns nil if the
// test does not run as root.
func ContainerIDs(host string) *confine.Accounts {
	if os.Geteuid() != 0 {
		return nil
	}
	return numbersOf(host, 700_000_000, 16*userns.Many, 1000)
}

// numbersOf selects one of several ranges of user ids by the name of the host.
func numbersOf(host string, first, each, ranges uint32) *confine.Accounts {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	first += h.Sum32() % ranges * each
	a, err := confine.ParseAccounts(fmt.Sprintf("%d-%d", first, first+each-1))
	if err != nil {
		panic(err) // cannot happen: the range is valid
	}
	return a
}
