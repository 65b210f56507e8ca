package supervisor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/identity"
)

// simRun is a submitted run.
type simRun struct {
	id     writ.RunID
	script string

	mu     sync.Mutex
	answer error // last answer to the submission
	lost   bool  // expired before it was accepted
}

// submitSome submits a script, and sometimes cancels its run later.
func (s *simulation) submitSome() {
	script := simScript(s.luck, len(s.work), len(s.hosts))
	p := s.payload(script)
	p.Deadline = 20 * time.Minute
	signed := s.signPayload(p)
	text, err := p.Text()
	if err != nil {
		s.t.Fatal(err)
	}
	run := &simRun{id: writ.RunIDOf(writ.DigestOf(text)), script: script}
	s.work = append(s.work, run)
	s.late.Go(func() {
		s.retryUntilDone(func(ctx context.Context) error {
			sup, _, err := s.api.get()
			if err == nil {
				_, err = sup.Submit(ctx, signed)
			}
			run.mu.Lock()
			defer run.mu.Unlock()
			if run.answer = err; writ.CodeOf(err) == writ.CodeExpired {
				run.lost = true
				return nil
			}
			return err
		})
	})
	if s.luck.IntN(10) == 0 {
		s.after(time.Duration(s.luck.Int64N(int64(30*time.Second))), func() {
			statement := s.statement("run/"+string(run.id), "cancel")
			s.late.Go(func() {
				s.retryUntilDone(func(ctx context.Context) error {
					err := s.decideNow(ctx, statement)
					if code := writ.CodeOf(err); code == writ.CodeConflict || code == writ.CodeNotFound || code == writ.CodeExpired {
						return nil // the run has ended or is not accepted yet
					}
					return err
				})
			})
		})
	}
}

// resumeSome resumes a failed run.
func (s *simulation) resumeSome() {
	failed := s.watch.failed()
	if len(failed) == 0 {
		return
	}
	id := failed[s.luck.IntN(len(failed))]
	s.resumed[id]++
	statement := s.statement("run/"+string(id), "resume")
	s.late.Go(func() {
		s.retryUntilDone(func(ctx context.Context) error {
			err := s.decideNow(ctx, statement)
			switch writ.CodeOf(err) {
			case writ.CodeConflict, writ.CodeNotFound, writ.CodeRunExpired, writ.CodeExpired:
				return nil // the run can no longer be resumed
			}
			return err
		})
	})
}

// decideNow submits a statement. The state that its signer sees is read once, from the first supervisor that answers.
func (s *simulation) decideNow(ctx context.Context, statement *identity.Statement) error {
	sup, _, err := s.api.get()
	if err == nil && statement.Format == 0 {
		err = s.seeIn(sup, statement)
	}
	if err == nil {
		_, err = sup.Decide(ctx, s.sign(statement))
	}
	return err
}

// retryUntilDone repeats a request until it succeeds, like a client.
func (s *simulation) retryUntilDone(ask func(ctx context.Context) error) {
	for !s.t.Failed() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		err := ask(ctx)
		stop()
		if err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// simScript creates, uses and removes a few resources. Some names are shared with other scripts.
func simScript(luck *rand.Rand, number, nodes int) string {
	var b strings.Builder
	for _, module := range []string{"image", "volume", "container", "node", "run"} {
		fmt.Fprintf(&b, "%s := import(%q)\n", module, module)
	}
	name := func(kind string) string {
		if luck.IntN(6) == 0 {
			return fmt.Sprint("shared-", kind, luck.IntN(3))
		}
		return fmt.Sprint(kind, number, "-", luck.IntN(3))
	}
	options := func() string {
		switch luck.IntN(8) {
		case 0:
			return `, {timeout: "30s"}`
		case 1:
			return `, {on_loss: "wait"}`
		case 2:
			return `, {retries: 1}`
		default:
			return ""
		}
	}
	ends := []string{"", "", ".err", ".err"}
	end := func() string { return ends[luck.IntN(len(ends))] }
	container := false
	for i := range 2 + luck.IntN(6) {
		switch luck.IntN(7) {
		case 0, 1:
			with := options()
			if luck.IntN(8) == 0 {
				with = `, {on_loss: "replace"}`
			}
			fmt.Fprintf(&b, "volume.create(%q, {size_gib: %d}%s)%s\n", name("v"), 1+luck.IntN(3), with, end())
		case 2:
			fmt.Fprintf(&b, "volume.resize(%q, {size_gib: %d}%s).err\n", name("v"), 3+luck.IntN(3), options())
		case 3:
			fmt.Fprintf(&b, "volume.delete(%q)%s\n", name("v"), end())
		case 4:
			fmt.Fprintf(&b, "node.ping({}, {node: \"n%d\"})%s\n", 1+luck.IntN(nodes), end())
		default:
			if !container {
				fmt.Fprintf(&b, "i := image.fetch(%q, {url: \"https://images.example/i.tar\", sha256: %q, format: \"oci\"})\n", fmt.Sprint("i", number), strings.Repeat("0", 64))
				fmt.Fprintf(&b, "c := container.create(%q, {image: i, memory_mib: 16})\n", fmt.Sprint("c", number))
				container = true
			}
			if luck.IntN(2) == 0 {
				fmt.Fprintf(&b, "e%d := container.run(%q, {image: i, memory_mib: 16}%s)%s\n", i, name("p"), options(), end())
				continue
			}
			fmt.Fprintf(&b, "e%d := container.exec(c, {command: [\"work\"]}%s)%s\n", i, options(), end())
		}
	}
	b.WriteString("run.output({done: true})\n")
	return b.String()
}
