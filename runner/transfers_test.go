package runner_test

import (
	"context"
	"crypto/ed25519"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/runner"
	"writ/runner/transfer"
	"writ/sal"
)

// A driver gets an origin if its job has a transfer grant for this node, and none otherwise. A transfer grant for
// another node, or not from its supervisor, makes the job fail.
func TestAJobWithATransferGrantHasAnOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		n := s.fresh(nil)
		var given atomic.Value
		n.host.setPause(func(_ context.Context, step string, r sal.Request) error {
			if step == begun {
				given.Store([]sal.Origin{r.Origin})
			}
			return nil
		})
		other := newKey()
		grant := writ.TransferGrant{
			Cluster: s.roster.Cluster, Datacenter: s.datacenter, Transfer: "r-1", From: "n2", FromName: "n2", FromKey: publicOf(other), Address: "n2:7450",
			To: n.member.Node(), ToKey: n.member.PublicKey(), Resource: writ.ResourceID{Project: s.project, Kind: writ.KindVolume, Name: "data"},
			UID: "0192f6c2-0000-7000-8000-0000000000bb", Expires: time.Now().Add(time.Hour).UnixMilli(),
		}
		elsewhere, keyless := grant, grant
		elsewhere.To, keyless.ToKey = "n3", publicOf(other)
		for seq, tt := range []struct {
			name   string
			by     ed25519.PrivateKey // nil: the job has no transfer grant
			grant  writ.TransferGrant
			code   writ.Code
			origin bool
		}{
			{name: "none"},
			{"its own", s.supervisor, grant, "", true},
			{"of another node", s.supervisor, elsewhere, writ.CodeSignatureInvalid, false},
			{"of another key", s.supervisor, keyless, writ.CodeSignatureInvalid, false},
			{"by a stranger", other, grant, writ.CodeSignerUnknown, false},
		} {
			given.Store([]sal.Origin{nil})
			job := s.job(seq+1, "volume.copy", "copy", func(j *writ.Job) {
				j.Args = map[string]any{"from": map[string]any{"kind": "volume", "name": "data", "uid": string(grant.UID)}, "size_gib": int64(1)}
				if tt.by != nil {
					signed, err := envelope.Sign(envelope.TransferGrant, tt.by, tt.grant)
					must(t, err)
					j.Grant = signed
				}
			})
			n.push(job)
			if got := codeOf(n.await(job.JobKey)); got != tt.code {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.code)
			}
			origin := given.Load().([]sal.Origin)[0]
			f, _ := origin.(*transfer.Fetcher)
			if (origin != nil) != tt.origin || tt.origin && f.Grant.Address != "n2:7450" {
				t.Errorf("%s: the driver was given %#v", tt.name, origin)
			}
		}
	})
}

// slowShipper is a driver that takes long to prepare an archive for another node.
type slowShipper struct {
	*driver
	keeping chan bool // receives when it starts
	free    chan bool // closed when it may end
}

func (s *slowShipper) Ship(ctx context.Context, _ sal.Shipment) (sal.Archive, error) {
	select {
	case s.keeping <- true:
	case <-s.free: // a second call, without a receiver
	}
	<-s.free
	return sal.Archive{}, writ.Errorf(writ.CodeDriverFailed, "told to fail")
}

func (*slowShipper) Shipped(context.Context, sal.Shipment) error { return nil }

// wires are connections in memory.
type wires chan net.Conn

func (w wires) Accept() (net.Conn, error) {
	conn, open := <-w
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (w wires) Close() error   { close(w); return nil }
func (w wires) Addr() net.Addr { return &net.UnixAddr{Name: "wires"} }

func (w wires) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	w <- theirs
	return ours, nil
}

// A job waits for a volume while a driver prepares it for another node, which takes long with plain directories. The
// job reports the wait and the run it waits for.
func TestJobReportsCopyOfItsResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, listener := newFixture(t), make(wires)
		shipper := &slowShipper{keeping: make(chan bool), free: make(chan bool)}
		n := s.fresh(func(r *runner.Runner) {
			r.Transfers = &runner.Transfers{Listener: listener, Address: "n1:7450"}
			for i, d := range r.Drivers {
				if d.Describe().Module == "volume" {
					shipper.driver = d.(*driver)
					r.Drivers[i] = shipper
				}
			}
		})
		other := newKey()
		grant := writ.TransferGrant{
			Cluster: s.roster.Cluster, Datacenter: s.datacenter, Transfer: "r-1", From: n.member.Node(), FromName: "n1", FromKey: n.member.PublicKey(),
			Address: "n1:7450", To: "n2", ToKey: publicOf(other), Resource: writ.ResourceID{Project: s.project, Kind: writ.KindVolume, Name: "data"},
			UID: "0192f6c2-0000-7000-8000-0000000000aa", Expires: time.Now().Add(time.Hour).UnixMilli(),
		}
		signed, err := envelope.Sign(envelope.TransferGrant, s.supervisor, grant)
		must(t, err)
		fetched := make(chan error)
		go func() {
			f := &transfer.Fetcher{Key: other, Grant: grant, Signed: signed, Dial: listener.dial}
			fetched <- f.Fetch(t.Context(), "", nothing{})
		}()
		<-shipper.keeping
		job := s.job(1, "volume.create", "data", nil)
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeResourceBusy || !testenv.Mentions(got.Error.Message, "r-1") {
			t.Errorf("a job on it: %+v", got.Error)
		}
		close(shipper.free)
		if err := <-fetched; writ.CodeOf(err) != writ.CodeDriverFailed {
			t.Errorf("the other node: %v", err)
		}
	})
}

// nothing is an empty part of an archive.
type nothing struct{ sal.Part }

func (nothing) At() (string, int64) { return "", 0 }
