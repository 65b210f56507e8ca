package runner_test

import (
	"context"
	"crypto/ed25519"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/seal"
	"writ/runner/carry"
	"writ/sal"
)

// TestAJobWithAWaybillHasAnOrigin has a driver look at what it is given: where to fetch, if the job has a waybill for this node, and nothing
// otherwise. A waybill that is not for this node, or not its supervisor's, refuses the job.
func TestAJobWithAWaybillHasAnOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		n := s.fresh(nil)
		var given atomic.Value
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun {
				given.Store([]sal.Origin{r.Origin})
			}
			return nil
		})
		other := newKey()
		waybill := writ.Waybill{
			Cluster: s.roster.Cluster, Datacenter: s.datacenter, Transfer: "r-1", From: "n2", FromName: "n2", FromKey: publicOf(other), Address: "n2:7450",
			To: n.member.Node(), ToKey: n.member.PublicKey(), Resource: writ.ResourceID{Project: s.project, Kind: writ.KindVolume, Name: "data"},
			UID: "0192f6c2-0000-7000-8000-0000000000bb", Expires: time.Now().Add(time.Hour).UnixMilli(),
		}
		elsewhere, keyless := waybill, waybill
		elsewhere.To, keyless.ToKey = "n3", publicOf(other)
		for seq, tt := range []struct {
			name    string
			by      ed25519.PrivateKey // nil: the job has no waybill
			waybill writ.Waybill
			code    writ.Code
			origin  bool
		}{
			{name: "none"},
			{"its own", s.supervisor, waybill, "", true},
			{"of another node", s.supervisor, elsewhere, writ.CodeSignatureInvalid, false},
			{"of another key", s.supervisor, keyless, writ.CodeSignatureInvalid, false},
			{"by a stranger", other, waybill, writ.CodeSignerUnknown, false},
		} {
			given.Store([]sal.Origin{nil})
			job := s.job(seq+1, "volume.copy", "copy", func(j *writ.Job) {
				j.Args = map[string]any{"from": map[string]any{"kind": "volume", "name": "data", "uid": string(waybill.UID)}, "size_gib": int64(1)}
				if tt.by != nil {
					sealed, err := seal.Seal(seal.Waybill, tt.by, tt.waybill)
					must(t, err)
					j.Waybill = sealed
				}
			})
			n.push(job)
			if got := codeOf(n.await(job.JobKey)); got != tt.code {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.code)
			}
			origin := given.Load().([]sal.Origin)[0]
			f, _ := origin.(*carry.Fetcher)
			if (origin != nil) != tt.origin || tt.origin && f.Waybill.Address != "n2:7450" {
				t.Errorf("%s: the driver was given %#v", tt.name, origin)
			}
		}
	})
}
