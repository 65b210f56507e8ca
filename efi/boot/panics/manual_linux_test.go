package panics

import (
	"testing"

	"writ/efi/boot/internal/test/manual"
)

func TestTheManualHasTheFaultsOfKernels(t *testing.T) {
	manual.Read(t).HasFaults(t,
		Count{Reason: panicWords + ": x", Times: 1}.Trouble(), Count{Times: heldFrom}.Trouble(),
		Count{Times: stillFrom}.Trouble(), Count{}.AfterReset().Trouble(), Count{}.AfterReset().AfterReset().Trouble())
}
