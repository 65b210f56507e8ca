package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

// silences are timeouts of a datacenter: the default, the minimum, and long ones for a site with a poor link.
var silences = []identity.Silence{identity.DefaultSilence, {Silent: 3 * time.Second, Lost: 15 * time.Second}, {Silent: 2 * time.Minute, Lost: 30 * time.Minute}}

// listening limits how much later a supervisor may detect silence than a node's last beat: it scans every second, and
// the beat may be a second old.
const listening = 5 * time.Second

func (s *sim) setSilence(silence identity.Silence) {
	if silence != identity.DefaultSilence {
		s.changeRoster(func(r *identity.Roster) { r.Datacenter(theDatacenter).Silence = silence })
	}
}

// TestLostNodesCallsEndAfterLossTimeout silences a node during a call. A standby that takes over meanwhile applies the
// whole timeout again, from its start.
func TestLostNodesCallsEndAfterLossTimeout(t *testing.T) {
	for _, silence := range silences {
		for _, standby := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, standby %t", silence.Lost, standby), func(t *testing.T) {
				inSim(t, func(t *testing.T, s *sim) {
					s.setSilence(silence)
					n := s.join("n1", slowly(24*time.Hour))
					id := s.submit(`import("volume").create("v", {size_gib: 1}, {timeout: "3h"})`)
					s.awaitCall(id, 1, writ.CallRunning)
					n.setSilent(true)
					began := time.Now()
					if standby {
						time.Sleep(silence.Lost - listening)
						s.halt()
						s.start()
						began = time.Now()
					}
					run, _ := s.wantState(id, writ.RunFailed)
					if run.Failure.Code != writ.CodeNodeLost {
						t.Errorf("failure = %+v", run.Failure)
					}
					if took := time.Since(began); took < silence.Lost-listening || took > silence.Lost+listening {
						t.Errorf("the call failed after %s", took)
					}
				})
			})
		}
	}
}

// The timeouts of the datacenter change while its supervisor runs.
func TestNodeGetsWorkUntilItIsSilent(t *testing.T) {
	for _, silence := range silences {
		t.Run(silence.Silent.String(), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n := s.join("n1")
				s.setSilence(silence)
				time.Sleep(listening)
				n.setSilent(true)
				is := func(want writ.Liveness) {
					t.Helper()
					if got := s.lastAbout(n.id).Liveness; got != want {
						t.Errorf("node is %s, want %s", got, want)
					}
				}
				time.Sleep(silence.Silent - 2*time.Second)
				is(writ.LivenessReady)
				time.Sleep(listening)
				is(writ.LivenessSilent)
				time.Sleep(silence.Lost - silence.Silent - 2*listening)
				is(writ.LivenessSilent)
				time.Sleep(2 * listening)
				is(writ.LivenessLost)
			})
		})
	}
}
