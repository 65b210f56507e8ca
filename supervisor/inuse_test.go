package supervisor_test

import (
	"fmt"
	"testing"

	"writ"
	"writ/identity"
	"writ/internal/test/testenv"
)

// Promise: Plans, scripts and manuals: No run deletes a resource that another resource uses: the call fails with
// `RESOURCE_IN_USE`, and names the user. A run may delete or change a user of its own deployment before it.
// How: The supervisor compares arguments and results of the project's resources; the driver refuses a volume, network
// or image that the node uses.
func TestResourceInUseIsNotDeleted(t *testing.T) {
	inSim(t, func(t *testing.T, s *sim) {
		s.realNode("n1")
		bases := make(map[string]int)
		payload := func(deployment, script string) *identity.Payload {
			p := s.payload("volume := import(\"volume\")\nmachine := import(\"machine\")\n" + script + "\n")
			p.Deployment = identity.Deployment{Name: deployment, Base: bases[deployment]}
			p.Targets = []string{"volume/boot", "volume/data", "machine/web"}
			return p
		}
		run := func(deployment, script string, want writ.RunState) *writ.Failure {
			t.Helper()
			accepted, err := s.Submit(t.Context(), s.signPayload(payload(deployment, script)))
			if err != nil {
				t.Fatal(err)
			}
			bases[deployment]++
			ended, _ := s.wantState(accepted.ID, want)
			return ended.Failure
		}
		const remove = `volume.delete(%q)`
		run("store", `volume.create("boot", {size_gib: 1}); volume.create("data", {size_gib: 1})`, writ.RunSucceeded)
		run("shop", `machine.create("web", {cpus: 1, memory_mib: 512, disks: [volume.get("boot")]})`, writ.RunSucceeded)
		inUse := func(volume string) {
			t.Helper()
			seen := s.preview(payload("store", fmt.Sprintf(remove, volume))).Calls[0]
			if seen.Action != writ.ActionRefused || seen.Error.Code != writ.CodeResourceInUse {
				t.Errorf("preview of the deletion = %+v", seen)
			}
			why := run("store", fmt.Sprintf(remove, volume), writ.RunFailed)
			if why.Code != writ.CodeResourceInUse || !testenv.Mentions(why.Message, "machine web", "the deployment shop", "volume "+volume) {
				t.Errorf("delete of the used volume %s: %+v", volume, why)
			}
		}
		inUse("boot")

		run("shop", `machine.attach("web", {volume: volume.get("data")})`, writ.RunSucceeded)
		inUse("data")
		run("shop", `machine.detach("web", {volume: volume.get("data")})`, writ.RunSucceeded)
		run("store", fmt.Sprintf(remove, "data"), writ.RunSucceeded)

		run("shop", `machine.delete("web")`, writ.RunSucceeded)
		run("store", fmt.Sprintf(remove, "boot"), writ.RunSucceeded)
		s.wantResources()

		// A user in the same deployment counts unless the run deletes it first.
		run("store", `machine.create("web", {cpus: 1, memory_mib: 512, disks: [volume.create("boot", {size_gib: 1})]})`, writ.RunSucceeded)
		why := run("store", `machine.get("web"); `+fmt.Sprintf(remove, "boot"), writ.RunFailed)
		if why.Code != writ.CodeResourceInUse || !testenv.Mentions(why.Message, "machine web", "the deployment store", "volume boot") {
			t.Errorf("delete of the used volume boot: %+v", why)
		}
		run("store", `machine.delete("web"); `+fmt.Sprintf(remove, "boot"), writ.RunSucceeded)
		s.wantResources()
	})
}
