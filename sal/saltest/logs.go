package saltest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// Log describes a driver whose resources write logs.
type Log struct {
	// Operation is the Look operation that reads the subject's log, "" without a log. A module with logs must have the
	// operations start and stop.
	Operation string
	// Write makes the running subject write a text. It may return before the text is in the log.
	Write func(t testing.TB, host, text string)
	// Flood makes the subject write, or simulates, more lines than a driver keeps.
	Flood func(t testing.TB, host string)
}

// logGuard limits the wait for text in the log.
const logGuard = 30 * time.Second

// tellsWhatWasWritten reads the log of the subject continuously while it is stopped, started, flooded and deleted.
func tellsWhatWasWritten(t *testing.T, e Suite) {
	if e.Log.Operation == "" {
		t.Skip("its resources write no logs")
	}
	h := e.newHost(t)
	r := logReader{h}
	h.expect(e.Make, writ.ChangeCreated)
	if text := r.excerpt("", 0).Text; strings.Count(text, "\n") > 1000 {
		t.Errorf("the log has %d lines, which exceeds the limit", strings.Count(text, "\n"))
	}
	e.Log.Write(t, h.dir, "\nhere it begins\n")
	next := r.follow("", "here it begins\n", false)
	if more, err := r.written(next); more || err != nil {
		t.Errorf("Written at the end of the log: true, %v", err)
	}
	if p := r.excerpt(next, 0); p.Text != "" || p.Next != next || p.Lost || p.More {
		t.Errorf("part at the end of the log: %+v", p)
	}

	text := strings.Repeat("a line with an \u00fc in it\n", 200) + "and one that has no end"
	e.Log.Write(t, h.dir, text)
	r.follow(next, text, false)
	h.restart(nil)
	next = r.follow(next, text, false) // repeated reads return the same text

	var looking sync.WaitGroup
	ended := make(chan struct{})
	looking.Go(func() {
		for {
			if _, err := r.written(next); err != nil {
				t.Errorf("Written during stop and start: %v", err)
			}
			select {
			case <-ended:
				return
			default:
			}
		}
	})
	h.must(h.step(Step{Operation: e.operation().Module + ".stop", Args: map[string]any{"grace_seconds": int64(0)}}))
	p := r.excerpt(next, 0)
	if p.Lost || h.observe(subject).State != "stopped" {
		t.Errorf("part after the stop: %+v", p)
	}
	h.must(h.step(Step{Operation: e.operation().Module + ".start"}))
	close(ended)
	looking.Wait()
	e.Log.Write(t, h.dir, "\nand here again\n")
	next = r.follow(p.Next, "and here again\n", false)

	e.Log.Flood(t, h.dir)
	e.Log.Write(t, h.dir, "\nafter the flood\n")
	next = r.follow(next, "after the flood\n", true)
	e.Log.Write(t, h.dir, "the end\n")
	next = r.follow(next, "the end\n", false)

	h.expect(e.remove(), writ.ChangeDeleted)
	h.refuse(Step{Operation: e.Log.Operation, Args: map[string]any{"after": next}}, subject, uidOf(subject),
		writ.CodeResourceUnknown)
	if more, err := r.written(next); more || err != nil {
		t.Errorf("Written of a deleted resource: true, %v", err)
	}
	second := writ.UID("0192f6c2-7d3a-7000-9000-the-second-one")
	h.must(h.do(t.Context(), e.Make, subject, second))
	again := h.must(h.do(t.Context(), Step{Operation: e.Log.Operation, Args: map[string]any{"after": next}}, subject,
		second))
	if again.Values["lost"] != true || strings.Contains(again.Values["text"].(string), "the end") {
		t.Errorf("part of a new resource at the old position: %v", again.Values)
	}
}

// logReader reads the log of a host's subject.
type logReader struct{ *host }

// written reports whether the log has text after a position.
func (r logReader) written(after string) (bool, error) {
	r.Helper()
	l, ok := r.driver.(sal.Logging)
	if !ok {
		r.Fatal("the driver is not a sal.Logging")
	}
	return l.Written(r.Context(), r.subject(), after)
}

// excerpt reads a part of the subject's log.
func (r logReader) excerpt(after string, kib int64) catalog.LogText {
	r.Helper()
	v := r.must(r.step(Step{
		Operation: r.suite.Log.Operation, Args: map[string]any{"after": after, "lines": int64(1000), "max_kib": kib},
	})).Values
	return catalog.LogText{
		Text: v["text"].(string), Next: v["next"].(string), Lost: v["lost"].(bool), More: v["more"].(bool),
	}
}

// follow reads the log from a position until the text ends with `until`, and returns the position after it. It reads
// small parts unless `lost` is set. The first part must report a loss if `lost` is set; other parts must not.
func (r logReader) follow(after, until string, lost bool) (next string) {
	r.Helper()
	var read strings.Builder
	kib := int64(1)
	if lost {
		kib = 48
	}
	end := time.After(logGuard)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for first := true; !strings.HasSuffix(read.String(), until); first = false {
		p := r.excerpt(after, kib)
		if len(p.Text) > int(kib<<10) || p.Lost != (lost && first) || p.Text != "" && p.Next == after {
			r.Fatalf("wrong part after %q: %+v", after, p)
		}
		read.WriteString(p.Text)
		after = p.Next
		if p.More {
			continue
		}
		for more := false; !more && !strings.HasSuffix(read.String(), until); {
			select {
			case <-tick.C:
			case <-end:
				r.Fatalf("the log lacks %[2]s after %[1]s: %[3]s", logGuard, short(until), short(read.String()))
			}
			var err error
			if more, err = r.written(after); err != nil {
				r.Fatal(err)
			}
		}
	}
	return after
}

func short(text string) string {
	if len(text) > 100 {
		return fmt.Sprintf("… %q", text[len(text)-100:])
	}
	return fmt.Sprintf("%q", text)
}
