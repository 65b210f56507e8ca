package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

// silences are settings of a datacenter: the default, the least that is possible, and what a site with a poor link may want.
var silences = []identity.Silence{identity.DefaultSilence, {Silent: 3 * time.Second, Lost: 15 * time.Second}, {Silent: 2 * time.Minute, Lost: 30 * time.Minute}}

// listening is how much later than its nodes a supervisor may count: it looks every second, and a beat may be a second old.
const listening = 5 * time.Second

func (s *sim) applies(silence identity.Silence) {
	if silence != identity.DefaultSilence {
		s.inForce(func(r *identity.Roster) { r.Datacenter(theDatacenter).Silence = silence })
	}
}

// TestLostNodesCallsEndAfterLossTimeout lets a node fall silent while it works. A standby that takes over meanwhile counts the same
// time from then on.
func TestLostNodesCallsEndAfterLossTimeout(t *testing.T) {
	for _, silence := range silences {
		for _, standby := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, standby %t", silence.Lost, standby), func(t *testing.T) {
				inSim(t, func(t *testing.T, s *sim) {
					s.applies(silence)
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
						t.Errorf("the call was given up after %s", took)
					}
				})
			})
		}
	}
}

// TestANodeGetsWorkUntilItIsSilent has a setting of a datacenter come into force while its supervisor runs.
func TestANodeGetsWorkUntilItIsSilent(t *testing.T) {
	for _, silence := range silences {
		t.Run(silence.Silent.String(), func(t *testing.T) {
			inSim(t, func(t *testing.T, s *sim) {
				n := s.join("n1")
				s.applies(silence)
				time.Sleep(listening)
				n.setSilent(true)
				is := func(want writ.Liveness) {
					t.Helper()
					if got := s.lastAbout(n.id).Liveness; got != want {
						t.Errorf("the node is %s, want %s", got, want)
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
