package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon/internal/test/recorded"
	"writ/coord/rosters"
	"writ/identity"
	"writ/identity/envelope"
	"writ/internal/test/testenv"
	"writ/ledger"
	"writ/ledger/sqlstore"
	runnerjournal "writ/runner/journal"
	"writ/runner/queue"
	"writ/runner/queue/redisqueue"
	"writ/supervisor/journal"
)

// recordedAt is a moment at which the cluster of the recorded stores was alive.
var recordedAt = time.Date(2026, 11, 25, 22, 27, 40, 0, time.UTC)

// recordedKey is the key of the recorded supervisor: made of a text, so that none is kept in the repository.
func recordedKey() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("writ recorded stores: supervisor"))
	return ed25519.NewKeyFromSeed(seed[:])
}

// recordedFile writes a recorded file into a directory of the test, and returns its path.
func recordedFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, recorded.File(t, "testdata/recorded", name), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantScripts are the states of the recorded runs by their scripts, sorted.
var wantScripts = []string{"all.tengo failed", "all.tengo succeeded", "fails.tengo failed", "slow.tengo cancelled", "slow1.tengo running", "slow10.tengo running",
	"slow11.tengo running", "slow12.tengo running", "slow2.tengo running", "slow3.tengo running", "slow4.tengo running", "slow5.tengo running",
	"slow6.tengo running", "slow7.tengo running", "slow8.tengo running", "slow9.tengo running"}

var wantResources = []string{"herodb/store", "image/debian", "machine/web", "network/lan", "volume/data", "volume/root"}

func sorted[T any](all []T, text func(T) string) (texts []string) {
	for _, v := range all {
		texts = append(texts, text(v))
	}
	slices.Sort(texts)
	return texts
}

// This program reads stores that an earlier program wrote. No record is rejected, lost or changed.
//
// Promise: Evaluation and resumes: Journal, ledger, node journal and Redis data of an earlier version remain
// readable.
// How: A test reads stores that an earlier program wrote.
func TestRecordedStoresAreRead(t *testing.T) {
	// the ledger
	store, err := sqlstore.Open(t.Context(), recordedFile(t, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	runs, err := store.Runs(t.Context(), ledger.RunFilter{}, ledger.Page{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sorted(runs.Items, func(r ledger.Run) string { return r.Script + " " + string(r.State) }); !slices.Equal(got, wantScripts) {
		t.Errorf("the ledger has the runs %q", got)
	}
	resources, err := store.Resources(t.Context(), ledger.ResourceFilter{}, ledger.Page{})
	if err != nil {
		t.Fatal(err)
	}
	if got := sorted(resources.Items, func(r writ.Resource) string { return fmt.Sprintf("%s/%s", r.Kind, r.Name) }); !slices.Equal(got, wantResources) {
		t.Errorf("the ledger has the resources %q", got)
	}
	roster, err := rosters.Load(t.Context(), store, "")
	if err != nil {
		t.Fatal(err)
	}
	records := openRecordedJournal(t)
	wantRecordedJournal(t, records, runs.Items, roster)
	for _, r := range runs.Items {
		signed, err := store.Signed(t.Context(), r.Payload)
		if err != nil {
			t.Fatal(err)
		}
		verifier := identity.Verifier{Roster: roster, Now: func() time.Time { return r.Accepted }}
		if _, err := verifier.Submission(signed); err != nil {
			t.Errorf("the submission of %s: %v", r.Script, err)
		}
	}
	wantRecordedNode(t, records, runs.Items)
}

// openRecordedJournal opens the recorded journal as the next supervisor does, which begins an epoch.
func openRecordedJournal(t *testing.T) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), recordedFile(t, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	err = j.Protect(journal.Protection{
		Key:     recordedKey().Seed(),
		Refused: func(err *writ.Error) { t.Errorf("a recorded row is refused: %v", err) },
	})
	if err == nil {
		_, err = j.BeginEpoch(t.Context(), recordedAt)
	}
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// wantRecordedJournal compares the journal with the runs and the newest roster of the ledger.
func wantRecordedJournal(t *testing.T, j *journal.Journal, runs []ledger.Run, roster *identity.Roster) {
	t.Helper()
	err := j.Read(t.Context(), func(tx *journal.Tx) error {
		var scripts []string
		for _, r := range runs {
			run, err := tx.Run(r.ID)
			if err != nil {
				return err
			}
			calls, err := tx.Calls(r.ID)
			if err != nil {
				return err
			}
			scripts = append(scripts, run.Script+" "+string(run.State))
			if len(calls) == 0 || calls[0].Operation == "" || run.Engine == "" {
				t.Errorf("run %s of engine %q has the calls %v", run.Script, run.Engine, calls)
			}
			if run.State == writ.RunSucceeded && (run.Output["address"] == "" || len(run.Summary) == 0) {
				t.Errorf("run %s has the output %v and the summary %q", run.Script, run.Output, run.Summary)
			}
			if strings.HasPrefix(run.Script, "slow1") && calls[0].State != writ.CallRunning && calls[0].State != writ.CallQueued && calls[0].State != writ.CallPlanned {
				t.Errorf("the call of the open run %s is %s", run.Script, calls[0].State)
			}
		}
		if slices.Sort(scripts); !slices.Equal(scripts, wantScripts) {
			t.Errorf("the journal has the runs %q", scripts)
		}
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		labels := make(map[string]string)
		for _, n := range nodes {
			maps.Copy(labels, n.Labels)
		}
		if len(nodes) != 2 || labels["disk"] != "ssd" {
			t.Errorf("the journal has the nodes %+v", nodes)
		}
		resources, err := tx.Resources()
		if err != nil {
			return err
		}
		if got := sorted(resources, func(r *journal.Resource) string { return fmt.Sprintf("%s/%s", r.Kind, r.Name) }); !slices.Equal(got, wantResources) {
			t.Errorf("the journal has the resources %q", got)
		}
		secret, err := tx.NewestSecret(runs[0].Project, "db-password")
		if err != nil || secret == nil || secret.Version != 1 {
			t.Errorf("the journal has the secret %+v, %v", secret, err)
		}
		sent, err := tx.SentCalls()
		if err != nil || len(sent) == 0 {
			t.Errorf("%d calls are out, %v", len(sent), err)
		}
		links, err := tx.RosterLinks()
		if err != nil {
			return err
		}
		own, err := identity.LoadRosters(roster.Cluster, links, tx.Roster)
		if err == nil && (own.Version != roster.Version || len(own.Chain().Entries(0)) != len(links)) {
			t.Errorf("the journal has %d versions of the roster up to %d, the ledger those up to %d", len(links), own.Version, roster.Version)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantRecordedNode checks the journal of a node, and its data in Redis.
func wantRecordedNode(t *testing.T, records *journal.Journal, runs []ledger.Run) {
	t.Helper()
	node, err := runnerjournal.Open(t.Context(), recordedFile(t, "node.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	done := 0
	for _, r := range runs {
		calls, err := node.CallsOf(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, seq := range calls {
			entry, err := node.Find(t.Context(), writ.JobKey{Run: r.ID, Seq: seq, Attempt: 1})
			if err != nil || entry == nil || entry.Result == nil || entry.Result.Driver == "" {
				t.Errorf("of call %d of %s the node has %+v, %v", seq, r.Script, entry, err)
			}
			done++
		}
	}
	if done < 4 {
		t.Errorf("the node has %d results", done)
	}
	jobs := make(map[writ.JobKey]writ.Job)
	keys := make(map[writ.NodeID]ed25519.PublicKey)
	err = records.Read(t.Context(), func(tx *journal.Tx) error {
		nodes, err := tx.Nodes()
		for _, n := range nodes {
			keys[n.ID] = n.PublicKey
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	beats, results, controls := readRecordedRedis(t, keys, jobs)
	t.Logf("Redis had %d beats, %d results, %d controls and %d jobs", beats, results, controls, len(jobs))
	if beats < 50 || results < 5 || controls < 5 || len(jobs) < 12 {
		t.Error("that is less than was recorded")
	}
}

// readRecordedRedis opens everything that Redis had, and counts it.
func readRecordedRedis(t *testing.T, keys map[writ.NodeID]ed25519.PublicKey, jobs map[writ.JobKey]writ.Job) (beats, results, controls int) {
	t.Helper()
	server := testenv.Redis(t)
	replay(t, server.Addr, recorded.File(t, "testdata/recorded", "redis.resp"))
	q, err := redisqueue.Open(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	supervisor := envelope.Only(recordedKey().Public().(ed25519.PublicKey))
	for node, key := range keys {
		for _, m := range receiveAll(t, q, queue.Stream{Node: node, Direction: queue.Out}) {
			if _, _, err := envelope.Open[writ.Beat](envelope.Beat, m.Body, envelope.Only(key)); err == nil {
				beats++
				continue
			}
			if _, _, err := envelope.Open[writ.Report](envelope.Report, m.Body, envelope.Only(key)); err == nil {
				continue
			}
			if _, _, err := envelope.Open[writ.Result](envelope.Result, m.Body, envelope.Only(key)); err != nil {
				t.Errorf("a message of node %s: %v", node, err)
				continue
			}
			results++
		}
		for _, m := range receiveAll(t, q, queue.Stream{Node: node, Direction: queue.In}) {
			if _, _, err := envelope.Open[writ.Control](envelope.Control, m.Body, supervisor); err != nil {
				t.Errorf("a message to node %s: %v", node, err)
			}
			controls++
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		served := make(chan queue.Task, 100)
		ended := make(chan error)
		go func() {
			ended <- q.Serve(ctx, node, 4, func(_ context.Context, task queue.Task) { served <- task })
		}()
		for first := true; ; first = false {
			wait := time.Second
			if first {
				wait = 5 * time.Second
			}
			select {
			case task := <-served:
				job, _, err := envelope.OpenWith[writ.Job](&envelope.Opener{Keys: supervisor}, envelope.Job, task.Body)
				if err != nil {
					t.Errorf("the task %s: %v", task.ID, err)
				}
				jobs[job.JobKey] = job
				continue
			case <-time.After(wait):
			}
			break
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return beats, results, controls
}

// receiveAll returns the messages of a stream.
func receiveAll(t *testing.T, q queue.Queue, stream queue.Stream) (all []queue.Message) {
	t.Helper()
	for {
		some, err := q.Receive(t.Context(), 200*time.Millisecond, stream)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
	}
}

// replay sends recorded commands to a Redis, and waits until it has carried all of them out.
func replay(t *testing.T, address string, commands []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = conn.Write(commands)
		_, _ = conn.Write([]byte("*1\r\n$4\r\nQUIT\r\n")) // Redis closes the connection behind its answer
	}()
	answers, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(answers) {
		if line[0] == '-' {
			t.Errorf("Redis refuses a recorded command: %s", line)
		}
	}
}
