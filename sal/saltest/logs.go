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
	// Operation is the Look operation that reads the subject's log, "" without a log. The module must then have start
	// and stop.
	Operation string
	// Write makes the running subject write a text. It may return before the text is in the log.
	Write func(t testing.TB, host, text string)
	// Flood makes the subject write, or simulates, more lines than a driver keeps.
	Flood func(t testing.TB, host string)
}

// logGuard limits the wait for text in the log.
const logGuard = 30 * time.Second

// tellsWhatWasWritten reads the log of the subject continuously while it is stopped, started, flooded and deleted.
func (e Suite) tellsWhatWasWritten(t *testing.T) {
	if e.Log.Operation == "" {
		t.Skip("its resources write no logs")
	}
	h := e.newHost(t)
	h.expect(e.Make, writ.ChangeCreated)
	if text := h.excerpt("", 0).Text; strings.Count(text, "\n") > 1000 {
		t.Errorf("the log has %d lines, which exceeds the limit", strings.Count(text, "\n"))
	}
	e.Log.Write(t, h.dir, "\nhere it begins\n")
	next := h.follow("", "here it begins\n", false)
	if more, err := h.logging().Written(t.Context(), h.subject(), next); more || err != nil {
		t.Errorf("Written at the end of the log: true, %v", err)
	}
	if p := h.excerpt(next, 0); p.Text != "" || p.Next != next || p.Lost || p.More {
		t.Errorf("part at the end of the log: %+v", p)
	}

	text := strings.Repeat("a line with an \u00fc in it\n", 200) + "and one that has no end"
	e.Log.Write(t, h.dir, text)
	h.follow(next, text, false)
	h.restart(nil)
	next = h.follow(next, text, false) // repeated reads return the same text

	var looking sync.WaitGroup
	ended := make(chan struct{})
	looking.Go(func() {
		for {
			if _, err := h.logging().Written(t.Context(), h.subject(), next); err != nil {
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
	p := h.excerpt(next, 0)
	if p.Lost || h.observe(subject).State != "stopped" {
		t.Errorf("part after the stop: %+v", p)
	}
	h.must(h.step(Step{Operation: e.operation().Module + ".start"}))
	close(ended)
	looking.Wait()
	e.Log.Write(t, h.dir, "\nand here again\n")
	next = h.follow(p.Next, "and here again\n", false)

	e.Log.Flood(t, h.dir)
	e.Log.Write(t, h.dir, "\nafter the flood\n")
	next = h.follow(next, "after the flood\n", true)
	e.Log.Write(t, h.dir, "the end\n")
	next = h.follow(next, "the end\n", false)

	h.expect(e.remove(), writ.ChangeDeleted)
	h.refuse(Step{Operation: e.Log.Operation, Args: map[string]any{"after": next}}, subject, uidOf(subject),
		writ.CodeResourceUnknown)
	if more, err := h.logging().Written(t.Context(), h.subject(), next); more || err != nil {
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

func (h *host) subject() writ.ResourceID { return Resource(h.suite.kind(), subject) }

func (h *host) logging() sal.Logging {
	h.Helper()
	l, ok := h.driver.(sal.Logging)
	if !ok {
		h.Fatal("the driver is not a sal.Logging")
	}
	return l
}

// excerpt reads a part of the subject's log.
func (h *host) excerpt(after string, kib int64) catalog.LogText {
	h.Helper()
	v := h.must(h.step(Step{
		Operation: h.suite.Log.Operation, Args: map[string]any{"after": after, "lines": int64(1000), "max_kib": kib},
	})).Values
	return catalog.LogText{
		Text: v["text"].(string), Next: v["next"].(string), Lost: v["lost"].(bool), More: v["more"].(bool),
	}
}

// follow reads the log from a position until the text ends with until, and returns the position after it. It reads
// small parts unless lost is set. The first part must report a loss if lost is set; other parts must not.
func (h *host) follow(after, until string, lost bool) (next string) {
	h.Helper()
	var read strings.Builder
	kib := int64(1)
	if lost {
		kib = 48
	}
	end := time.After(logGuard)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for first := true; !strings.HasSuffix(read.String(), until); first = false {
		p := h.excerpt(after, kib)
		if len(p.Text) > int(kib<<10) || p.Lost != (lost && first) || p.Text != "" && p.Next == after {
			h.Fatalf("wrong part after %q: %+v", after, p)
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
				h.Fatalf("the log lacks %[2]s after %[1]s: %[3]s", logGuard, short(until), short(read.String()))
			}
			var err error
			if more, err = h.logging().Written(h.Context(), h.subject(), after); err != nil {
				h.Fatal(err)
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
