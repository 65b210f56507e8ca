package rehearsal

import (
	"testing"

	"writ"
	"writ/scripts/scripttest"
)

// A script can be tested without its secrets: the test's datacenter makes them up.
func TestSecretsAreMadeUp(t *testing.T) {
	s := newSim(t, map[string]string{"db.tengo": `
herodb := import("herodb")
run := import("run")
store := herodb.create("store", {memory_mib: 64, password: run.secret("db-password")})
run.output({address: store.address})
`})
	if plan, err := s.Plan(t.Context(), scripttest.Rehearsal{Script: "db.tengo"}); err != nil || plan.Failure != nil || len(plan.Calls) != 1 {
		t.Errorf("%+v, %v", plan, err)
	}
	for range 2 {
		if done := play(t, s, scripttest.Rehearsal{Script: "db.tengo"}); done.State != string(writ.RunSucceeded) || done.Output["address"] == nil {
			t.Errorf("%+v", done)
		}
	}
}
