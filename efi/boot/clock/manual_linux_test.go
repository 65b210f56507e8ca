package clock

import (
	"errors"
	"testing"
	"time"

	"writ/efi/boot/internal/test/manual"
)

func TestTheManualHasTheFaultsOfClocks(t *testing.T) {
	page := manual.Read(t)
	page.HasFaults(t, Check(time.Time{}), NoAnswer(errors.New("x"), true))
	page.HasLimit(t, "clock", (&Clock{Servers: []string{"10.77.0.1"}, Now: func() time.Time { return clockFrom }}).Limit())
	page.HasLimit(t, "clock", (&Clock{Now: func() time.Time { return time.Time{} }}).Limit())
}
