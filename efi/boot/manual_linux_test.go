package boot

import (
	"testing"

	"writ/efi/boot/internal/test/manual"
	"writ/efi/progress"
)

// The table of waits in the manual has the limits of the code.
func TestTheManualHasTheLimits(t *testing.T) {
	page := manual.Read(t)
	for _, tt := range []struct {
		stage string
		limit progress.Limit
	}{
		{progress.StageModules, modulesLimit}, {"service", readyLimit},
		{"runner", joinLimit}, {"runner", progress.Limit{Most: heldPause, Then: runnerAgain}}, {"joined", approvalLimit},
		{"off", endLimit}, {"off", offLimit},
	} {
		page.HasLimit(t, tt.stage, tt.limit)
	}
}

// The manual quotes the messages of wrong settings.
func TestTheManualHasTheFaultsOfSettings(t *testing.T) {
	manual.Read(t).HasFaults(t, new(Config).Read("writ.nothing=1"),
		(&Config{Supervisors: []string{"x"}, Redis: "x"}).Missing(false))
}
