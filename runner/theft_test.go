package runner_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/identity/target"
	"writ/runner"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/simulated"
)

// holdings are the resources of a project on the node before its supervisor's key is stolen, with the calls that
// created them.
var holdings = []struct {
	operation, name string
	args            map[string]any
}{
	{"image.fetch", "base", map[string]any{"url": "https://example.com/base", "sha256": strings.Repeat("0a", 32), "format": "oci"}},
	{"volume.create", "data", map[string]any{"size_gib": int64(1)}},
	{"volume.create", "root", map[string]any{"size_gib": int64(1)}},
	{"volume.snapshot", "data", map[string]any{"snapshot": "before"}},
	{"volume.send", "data", map[string]any{"backup": "nightly"}},
	{"network.create", "lan", nil},
	{"machine.create", "vm", map[string]any{"cpus": int64(1), "memory_mib": int64(64), "disks": []any{held("volume", "root")}, "networks": []any{held("network", "lan")}}},
	{"machine.snapshot", "vm", map[string]any{"snapshot": "before"}},
	{"container.create", "app", map[string]any{"image": held("image", "base"), "volumes": []any{map[string]any{"volume": held("volume", "data"), "path": "/data"}}}},
	{"herodb.create", "store", map[string]any{"memory_mib": int64(16), "persist": true}},
	{"herodb.backup", "store", map[string]any{"backup": "before"}},
}

// attempt is a thief's attempt to destroy something with an operation.
type attempt struct {
	name string
	args map[string]any
}

var (
	wipe     = []any{"sh", "-c", "rm -rf /data"}
	mount    = []any{map[string]any{"volume": held("volume", "data"), "path": "/data"}}
	snapshot = map[string]any{"snapshot": "before"}
	grown    = map[string]any{"size_gib": int64(2)}
)

// attempts has at least one entry for each operation of the catalogue, including read-only ones, which must not change
// any data.
var attempts = map[string][]attempt{
	"image.fetch":            {{"base", map[string]any{"url": "https://evil.example.com/base", "sha256": strings.Repeat("0a", 32), "format": "oci"}}, {"evil", map[string]any{"url": "https://evil.example.com/base", "sha256": strings.Repeat("0b", 32)}}},
	"image.get":              {{"base", nil}},
	"image.delete":           {{"base", nil}},
	"volume.create":          {{"data", grown}, {"filler", grown}},
	"volume.get":             {{"data", nil}},
	"volume.resize":          {{"data", grown}},
	"volume.snapshot":        {{"data", map[string]any{"snapshot": "filler"}}},
	"volume.restore":         {{"data", snapshot}},
	"volume.clone":           {{"filler", map[string]any{"from": held("volume", "data")}}, {"root", map[string]any{"from": held("volume", "data")}}},
	"volume.copy":            {{"filler", map[string]any{"from": held("volume", "data"), "size_gib": int64(1)}}, {"root", map[string]any{"from": held("volume", "data"), "size_gib": int64(1)}}},
	"volume.send":            {{"data", map[string]any{"backup": "filler"}}, {"data", map[string]any{"backup": "nightly"}}},
	"volume.delete_snapshot": {{"data", snapshot}},
	"volume.discard":         {{"data", map[string]any{"backup": "nightly"}}},
	"volume.receive":         {{"root", map[string]any{"backup": "nightly", "size_gib": int64(1)}}, {"filler", map[string]any{"backup": "nightly", "size_gib": int64(1)}}},
	"volume.delete":          {{"data", nil}, {"root", nil}},
	"network.create":         {{"evil", nil}, {"lan", nil}},
	"network.get":            {{"lan", nil}},
	"network.allow":          {{"lan", map[string]any{"rules": []any{map[string]any{"protocol": "any"}}}}},
	"network.delete":         {{"lan", nil}},
	"machine.create": {
		{"evil", map[string]any{"cpus": int64(1), "memory_mib": int64(64), "disks": []any{held("volume", "data")}, "cloud_init": "#!/bin/sh\nmkfs /dev/vdb"}},
		{"evil", map[string]any{"cpus": int64(1), "memory_mib": int64(64), "disks": []any{held("volume", "root")}, "cmdline": "init=/bin/wipe"}},
		{"vm", map[string]any{"cpus": int64(1), "memory_mib": int64(128), "disks": []any{held("volume", "root")}, "networks": []any{held("network", "lan")}}},
	},
	"machine.get":             {{"vm", nil}},
	"machine.start":           {{"vm", nil}},
	"machine.stop":            {{"vm", map[string]any{"grace_seconds": int64(0)}}},
	"machine.pause":           {{"vm", nil}},
	"machine.resume":          {{"vm", nil}},
	"machine.resize":          {{"vm", map[string]any{"memory_mib": int64(128)}}},
	"machine.snapshot":        {{"vm", map[string]any{"snapshot": "filler"}}},
	"machine.restore":         {{"vm", snapshot}},
	"machine.delete_snapshot": {{"vm", snapshot}},
	"machine.attach":          {{"vm", map[string]any{"volume": held("volume", "data")}}},
	"machine.detach":          {{"vm", map[string]any{"volume": held("volume", "root")}}},
	"machine.console":         {{"vm", nil}},
	"machine.delete":          {{"vm", nil}},
	"container.create":        {{"evil", map[string]any{"image": held("image", "base"), "command": wipe, "volumes": mount}}, {"app", map[string]any{"image": held("image", "base"), "command": wipe, "volumes": mount}}},
	"container.get":           {{"app", nil}},
	"container.start":         {{"app", nil}},
	"container.stop":          {{"app", map[string]any{"grace_seconds": int64(0)}}},
	"container.exec":          {{"app", map[string]any{"command": wipe}}},
	"container.run":           {{"evil", map[string]any{"image": held("image", "base"), "command": wipe, "volumes": mount}}},
	"container.logs":          {{"app", nil}},
	"container.delete":        {{"app", nil}},
	"herodb.create":           {{"store", map[string]any{"memory_mib": int64(32), "persist": true}}, {"evil", map[string]any{"memory_mib": int64(16)}}},
	"herodb.get":              {{"store", nil}},
	"herodb.backup":           {{"store", map[string]any{"backup": "filler"}}},
	"herodb.restore":          {{"store", map[string]any{"backup": "before"}}},
	"herodb.delete_backup":    {{"store", map[string]any{"backup": "before"}}},
	"herodb.rotate_secret":    {{"store", nil}},
	"herodb.delete":           {{"store", nil}},
	"node.facts":              {{"", nil}},
	"node.drivers":            {{"", nil}},
	"node.ping":               {{"", nil}},
	"run.now":                 {{"", nil}},
}

// held returns a handle to a resource of the project.
func held(kind, name string) map[string]any {
	return map[string]any{"kind": kind, "name": name, "uid": string(uidOf(kind, name))}
}

// uidOf returns a fixed UID for a resource. A thief of the supervisor's key knows it.
func uidOf(kind, name string) writ.UID {
	digest := writ.DigestOf([]byte(kind + "/" + name)).String()
	return writ.UID(digest[:8] + "-" + digest[8:12] + "-7" + digest[13:16] + "-8" + digest[17:20] + "-" + digest[20:32])
}

// victim is a node with all kinds of resources whose supervisor's key was stolen: its jobs and the answers of its node
// API come from the thief.
type victim struct {
	*node
	drivers []sal.Driver
	seq     int
}

func newVictim(t *testing.T) *victim {
	v := &victim{}
	dir := t.TempDir()
	for _, module := range simulated.Modules {
		d, err := simulated.Open(simulated.Config{Module: module, Dir: filepath.Join(dir, "sim")})
		must(t, err)
		v.drivers = append(v.drivers, d)
	}
	v.node = newFixture(t).fresh(func(r *runner.Runner) {
		r.Drivers = append(slices.Clone(v.drivers), r.Drivers[len(r.Drivers)-1]) // of the module node
	})
	for _, h := range holdings {
		if got := v.try(h.operation, attempt{h.name, h.args}, v.everyday, time.Now()); got.Error != nil {
			t.Fatalf("%s %s: %v", h.operation, h.name, got.Error)
		}
	}
	return v
}

// try sends a job signed with the supervisor's key, under a payload.
func (v *victim) try(operation string, a attempt, payload writ.Digest, accepted time.Time) writ.Result {
	v.Helper()
	v.seq++
	op, _ := catalog.Lookup(operation)
	j := v.job(v.seq, operation, a.name, func(j *writ.Job) {
		j.Payload, j.Run, j.Args, j.Accepted = payload, writ.RunIDOf(payload), a.args, accepted.UnixMilli()
		j.UID = ""
		if a.name != "" {
			j.UID = uidOf(string(op.Kind), a.name)
		}
	})
	v.push(j)
	return v.await(j.JobKey)
}

// state returns the observations of all resources on the node.
func (v *victim) state() map[string]sal.Observation {
	v.Helper()
	all := map[string]sal.Observation{}
	for _, d := range v.drivers {
		resources, err := d.List(v.Context())
		must(v.TB, err)
		for _, r := range resources {
			seen, err := d.Observe(v.Context(), r)
			must(v.TB, err)
			all[r.String()] = seen
		}
	}
	return all
}

// The supervisor's key alone does not change any data or owner on a node, with any operation and any payload that a
// thief can get.
//
// Promise: Signatures and rosters: With a stolen supervisor key alone, a node performs only read operations.
// How: Every operation declares its effect on data; the node verifies the payload of the other operations once per
// run; SECURITY.md describes transfer grants.
// Also: TestAPayloadIsFetchedOnceForARun, TestEveryOperationDeclaresItsEffectOnData,
// TestDeclaredDataMatchesTheOperation.
func TestSupervisorKeyAloneChangesNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVictim(t)
		without := func(operation string, change func(p *identity.Payload)) writ.Digest {
			return v.submission(v.alice, func(p *identity.Payload) {
				p.Allow, p.Targets = slices.DeleteFunc(everything(), func(name string) bool { return name == operation }), []string{target.Any}
				p.MaxCalls = identity.MaxCalls
				if change != nil {
					change(p)
				}
			})
		}
		generous := func(p *identity.Payload) { p.Allow = everything() }
		old := without("", generous)
		quiet(3 * time.Hour)
		before := v.state()
		powers := map[string]func(operation string) (writ.Digest, time.Time){
			"without a payload": func(string) (writ.Digest, time.Time) { return writ.DigestOf([]byte("nothing")), time.Now() },
			"a payload that the thief signed": func(string) (writ.Digest, time.Time) {
				return v.submission(sshsig.NewSigner(newKey()), func(p *identity.Payload) { p.Allow, p.Targets = everything(), []string{target.Any} }), time.Now()
			},
			"the payload of a run that is over": func(string) (writ.Digest, time.Time) { return old, time.Now().Add(-3 * time.Hour) },
			"the payload of a run that is over, as if it had come now": func(string) (writ.Digest, time.Time) {
				return old, time.Now()
			},
			"a payload that does not allow the operation": func(operation string) (writ.Digest, time.Time) { return without(operation, nil), time.Now() },
			"a payload of another project": func(operation string) (writ.Digest, time.Time) {
				return without("", func(p *identity.Payload) { generous(p); p.Project, p.ProjectName = labProject, "lab" }), time.Now()
			},
			"a payload under the digest of another": func(operation string) (writ.Digest, time.Time) {
				asked := without(operation, nil)
				v.payloads[asked] = v.payloads[without("", generous)]
				return asked, time.Now()
			},
		}
		for _, op := range catalog.Operations() {
			if len(attempts[op.Name()]) == 0 {
				t.Errorf("no attempt to destroy with %s: add one", op.Name())
			}
			for _, a := range attempts[op.Name()] {
				for name, power := range powers {
					digest, accepted := power(op.Name())
					got := v.try(op.Name(), a, digest, accepted)
					if op.Signed() && got.Error == nil {
						t.Errorf("%s %s is carried out with %s", op.Name(), a.name, name)
					}
					if diff := cmp.Diff(before, v.state()); diff != "" {
						t.Fatalf("%s %s with %s changes the node:\n%s", op.Name(), a.name, name, diff)
					}
				}
				if !op.Destructive {
					continue
				}
				for name, targets := range map[string][]string{
					"nothing": nil, "others": {"volume/other", "herodb/sto", "machine/vmx*", "container/data", "image/data"}, "other kinds": {"volume/vm", "machine/data"},
				} {
					digest := without("", func(p *identity.Payload) { generous(p); p.Targets = targets })
					if got := v.try(op.Name(), a, digest, time.Now()); codeOf(got) != writ.CodeDestructiveDenied {
						t.Errorf("%s %s with a payload that names %s: %+v", op.Name(), a.name, name, got.Error)
					}
					if diff := cmp.Diff(before, v.state()); diff != "" {
						t.Fatalf("%s %s with a payload that names %s changes the node:\n%s", op.Name(), a.name, name, diff)
					}
				}
			}
		}
		// With a payload that covers it, the same attempt succeeds. This shows that the checks above can fail.
		covers := without("", generous)
		acted := 0
		for _, op := range catalog.Operations() {
			for _, a := range attempts[op.Name()] {
				got := v.try(op.Name(), a, covers, time.Now())
				if got.Error == nil {
					acted++
				}
				if slices.Contains([]writ.Code{writ.CodeOperationNotAllowed, writ.CodeDestructiveDenied, writ.CodeRoleMissing, writ.CodeNotFound}, codeOf(got)) {
					t.Errorf("%s %s with a payload that covers it: %v", op.Name(), a.name, got.Error)
				}
			}
		}
		if acted < 20 || cmp.Equal(before, v.state()) {
			t.Errorf("%d attempts were carried out with a payload that covers them", acted)
		}
		for name := range attempts {
			if _, ok := catalog.Lookup(name); !ok {
				t.Errorf("unknown operation %s", name)
			}
		}
	})
}

// Any number of concurrent jobs of a run fetch its payload once; read-only jobs need none.
func TestAPayloadIsFetchedOnceForARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		quiet(time.Second)
		var last *writ.Job
		for seq := 1; seq <= 200; seq++ {
			operation, name := "volume.create", "data-"+string(rune('a'+seq%26))
			if seq > 100 {
				operation, name = "node.ping", ""
			}
			last = n.job(seq, operation, name, nil)
			n.push(last)
		}
		for seq := 1; seq <= 200; seq++ {
			if got := n.await(writ.JobKey{Run: last.Run, Seq: seq, Attempt: 1}); got.Error != nil {
				t.Fatalf("job %d: %+v", seq, got.Error)
			}
		}
		if s.asked != 1 {
			t.Errorf("the payload was fetched %d times", s.asked)
		}
		ping := n.job(1, "node.ping", "", func(j *writ.Job) {
			j.Payload = writ.DigestOf([]byte("nothing"))
			j.Run = writ.RunIDOf(j.Payload)
		})
		n.push(ping)
		if got := n.await(ping.JobKey); got.Error != nil || s.asked != 1 {
			t.Errorf("a ping fetched a payload: %+v", got.Error)
		}
	})
}
