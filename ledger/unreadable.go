package ledger

import (
	"fmt"

	"writ"
)

// Unreadable describes a row that the store cannot decode: another program or a fault of the disk changed it. Lists
// skip the row and return the others.
type Unreadable struct {
	Row string     // for example "node n1 of datacenter vienna"
	Run writ.RunID // the run of a waiting submission, otherwise ""
	Err error
}

// Error describes the row for an operator.
func (u Unreadable) Error() *writ.Error {
	return &writ.Error{
		Code: writ.CodeStoreDamaged, Message: fmt.Sprintf("the ledger cannot read its row for %s: %v", u.Row, u.Err),
		Hint: "find out who can write to the ledger, then restore the ledger from a backup", Err: u.Err,
	}
}

// UnreadableReporter is implemented by ledgers that report unreadable rows.
type UnreadableReporter interface {
	// OnUnreadable sets the function to call for each unreadable row that a list skips, normally once per row.
	OnUnreadable(report func(Unreadable))
}
