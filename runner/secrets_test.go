package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"writ"
	"writ/identity/secret"
	"writ/internal/test/testenv"
	"writ/internal/tracing"
	"writ/runner"
	"writ/sal"
	"writ/sal/catalog"
)

const canary = "canary-5f1d0c7b93e8\n"

// reader returns the node's current key for secrets.
func (n *node) reader() age.Recipient {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, "age.key"))
	must(n.TB, err)
	key, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	must(n.TB, err)
	return key.Recipient()
}

// withSecret returns a job that passes a secret to the standard input of a container, with the ciphertext from make.
func (n *node) withSecret(seq int, make func(label secret.Label) []byte) *writ.Job {
	return n.job(seq, "container.exec", "web", func(j *writ.Job) {
		j.Args = map[string]any{"command": []any{"login"}, "stdin": map[string]any{"secret": "db-password@3"}}
		label := secret.Label{Cluster: j.Cluster, Datacenter: j.Datacenter, Project: j.Project, Name: "db-password", Version: 3}
		if ciphertext := make(label); ciphertext != nil {
			j.Secrets = map[string][]byte{"db-password@3": ciphertext}
		}
	})
}

func (n *node) encryptTo(to age.Recipient) func(label secret.Label) []byte {
	return func(label secret.Label) []byte {
		ciphertext, err := secret.Encrypt(canary, label, to)
		must(n.TB, err)
		return ciphertext
	}
}

// talker is a driver whose tool repeats its input.
type talker struct {
	sal.Driver
	say func(told string, r sal.Request) (sal.Outcome, error)
}

func (d *talker) Do(_ context.Context, r sal.Request) (sal.Outcome, error) {
	told, err := r.Args.(*catalog.ContainerExec).Stdin.Reveal()
	if err != nil {
		return sal.Outcome{}, err
	}
	return d.say(told, r)
}

func TestASecretEndsAtTheDriver(t *testing.T) {
	var spans []tracing.Span
	defer func() { searchSpans(t, spans, 5) }()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &talker{}
		n := newFixture(t).fresh(func(r *runner.Runner) {
			d.Driver = r.Drivers[1]
			r.Drivers[1] = d
			r.Record = func(s tracing.Span) { spans = append(spans, s) } // jobs run one after the other
			r.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		told, beat := "", writ.Beat{}
		for i, say := range []func(text string, r sal.Request) (sal.Outcome, error){
			func(text string, r sal.Request) (sal.Outcome, error) {
				told = text
				r.Progress("typing " + text)
				time.Sleep(2 * time.Second)
				beat = n.lastBeat()
				return sal.Outcome{Change: writ.ChangeUpdated, Values: map[string]any{"stdout": "> " + text, "all": []any{map[string]any{text: strings.TrimSpace(text)}}}}, nil
			},
			func(text string, _ sal.Request) (sal.Outcome, error) {
				return sal.Outcome{}, writ.Errorf(writ.CodeDriverFailed, "cannot log in with %s", text).WithHint("not with %q", strings.TrimSpace(text))
			},
			func(text string, _ sal.Request) (sal.Outcome, error) {
				return sal.Outcome{}, fmt.Errorf("cannot log in with %s", text)
			},
			func(text string, _ sal.Request) (sal.Outcome, error) {
				e := writ.Errorf(writ.CodeDriverFailed, "cannot log in")
				e.Err = fmt.Errorf("run login --password %s", text)
				return sal.Outcome{}, e
			},
			func(text string, r sal.Request) (sal.Outcome, error) { panic(fmt.Sprintf("%s %+v", text, r.Args)) },
		} {
			d.say = say
			job := n.withSecret(i+1, n.encryptTo(n.reader()))
			n.push(job)
			got := n.await(job.JobKey)
			if text := fmt.Sprintf("%+v %+v", got, got.Error); strings.Contains(text, strings.TrimSpace(canary)) {
				t.Errorf("result %d shows it: %s", i+1, text)
			}
			if i == 0 && !strings.Contains(got.Values["stdout"].(string), "> <secret db-password>") {
				t.Errorf("result 1 is %+v", got.Values)
			}
		}
		if told != canary {
			t.Errorf("secret of the driver = %q", told)
		}
		if len(beat.Progress) != 1 || beat.Progress[0].Seq != 1 || !strings.HasPrefix(beat.Progress[0].Text, "typing <secret db-password>") {
			t.Errorf("progress during the job = %+v", beat.Progress)
		}
		time.Sleep(2 * time.Second)
		if beat := n.lastBeat(); len(beat.Progress) > 0 {
			t.Errorf("progress after all jobs = %+v", beat.Progress)
		}
		n.stop()
		if strings.Contains(log.String(), strings.TrimSpace(canary)) || !strings.Contains(log.String(), "typing <secret db-password>") {
			t.Errorf("the log:\n%s", log.String())
		}
		must(t, filepath.WalkDir(n.dir, func(path string, f fs.DirEntry, err error) error {
			if err != nil || f.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if bytes.Contains(text, []byte(strings.TrimSpace(canary))) {
				t.Errorf("%s has it", path)
			}
			return err
		}))
	})
}

// searchSpans sends spans to a collector, and searches its input for the secret.
func searchSpans(t *testing.T, spans []tracing.Span, want int) {
	t.Helper()
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = got.ReadFrom(r.Body) }))
	exporter, err := tracing.Open(t.Context(), tracing.Settings{URL: collector.URL, Ratio: 1, Service: "writ-test", Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	for _, s := range spans {
		exporter.Record(s)
	}
	must(t, exporter.Close())
	collector.Close() // waits for the handlers
	if n := strings.Count(got.String(), "writ.operation"); len(spans) != want || n != want {
		t.Errorf("%d spans, and %d of them at the collector; want %d", len(spans), n, want)
	}
	if bytes.Contains(got.Bytes(), []byte(strings.TrimSpace(canary))) || !strings.Contains(got.String(), "cannot log in with <secret db-password>") {
		t.Errorf("the spans: %q", got.String())
	}
}

// Promise: Secrets: A node uses the correct secret or fails the job.
// How: The decrypted secret must match the name in the job.
func TestWrongSecretStopsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		another, err := age.GenerateX25519Identity()
		must(t, err)
		as := func(change func(l *secret.Label)) func(secret.Label) []byte {
			return func(l secret.Label) []byte { change(&l); return n.encryptTo(n.reader())(l) }
		}
		seq := 0
		for name, tt := range map[string]struct {
			make func(secret.Label) []byte
			want writ.Code
		}{
			"none":              {func(secret.Label) []byte { return nil }, writ.CodeSecretUnknown},
			"nonsense":          {func(secret.Label) []byte { return []byte("age-encryption.org/v1\n") }, writ.CodeSecretUnreadable},
			"for another node":  {n.encryptTo(another.Recipient()), writ.CodeSecretUnreadable},
			"of another name":   {as(func(l *secret.Label) { l.Name = "api-key" }), writ.CodeSecretUnreadable},
			"an older one":      {as(func(l *secret.Label) { l.Version = 2 }), writ.CodeSecretUnreadable},
			"another project's": {as(func(l *secret.Label) { l.Project = labProject }), writ.CodeSecretUnreadable},
			"another cluster's": {as(func(l *secret.Label) { l.Cluster = "c" }), writ.CodeSecretUnreadable},
		} {
			seq++
			job := n.withSecret(seq, tt.make)
			n.push(job)
			if got := n.await(job.JobKey); codeOf(got) != tt.want || got.Error.Retryable() {
				t.Errorf("%s: %+v, want %s", name, got.Error, tt.want)
			}
		}
		if n.host.total() != 0 {
			t.Errorf("%d effects", n.host.total())
		}
	})
}

func TestNodeReportsLostKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFixture(t).fresh(nil)
		before := n.encryptTo(n.reader())
		n.stop()
		must(t, os.Remove(filepath.Join(n.dir, "age.key")))
		n = n.again()
		job := n.withSecret(1, before)
		n.push(job)
		if got := n.await(job.JobKey); codeOf(got) != writ.CodeSecretUnreadable || !testenv.Mentions(got.Error.Hint, "join") {
			t.Errorf("it answers %+v", got.Error)
		}

		// The new key was stored, so the next start finds it and accepts secrets for it.
		n.stop()
		n = n.again()
		job = n.withSecret(2, n.encryptTo(n.reader()))
		n.push(job)
		if got := n.await(job.JobKey); got.Error != nil {
			t.Errorf("after a second restart it answers %+v", got.Error)
		}
	})
}
