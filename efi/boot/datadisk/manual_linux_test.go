package datadisk

import (
	"testing"

	"writ/efi/boot/internal/test/manual"
)

func TestTheManualHasTheFaultsOfDisks(t *testing.T) {
	page := manual.Read(t)
	page.HasLimit(t, "data", diskLimit)
	page.HasLimit(t, "data", mkfsLimit)
	page.HasFaults(t, noDisk("data", "", nil), noDisk("data", "xfs on /dev/vda", nil),
		foreign([]string{"photo"}, "node"), otherNode("n1", "n2"), full("/dev/vda", 0, 1<<30))
}
