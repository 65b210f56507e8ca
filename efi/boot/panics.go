package boot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/efi/progress"
)

// Bounds of what is read of a kernel that panicked. The firmware keeps what the kernel wrote, or what somebody else has put there.
const (
	maxRecords  = 64
	recordBytes = 64 << 10
	wordsKept   = 100 // lines, the last ones
	wordsShown  = 20  // of them on the console
	maxReason   = 200 // bytes
)

// lateAfter is how long a machine runs until a panic says nothing of its start any more.
const lateAfter = time.Hour

// record is a part of what a kernel said last: the first part has the last lines.
type record struct {
	file, kind, count string
	part              int
	at                time.Time
	text              string
}

// recordHead is the first line of a record.
var recordHead = regexp.MustCompile(`^(Panic|Oops)#(\d{1,9}) Part(\d{1,9})\n`)

// readRecords reads what a kernel has written, from the directory where pstore shows it. files are those of all records, also of what cannot be read.
func readRecords(pstore fs.FS) (records []record, files []string, err error) {
	names, err := fs.Glob(pstore, "dmesg-*")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names[:min(len(names), maxRecords)] {
		files = append(files, name)
		if r, ok := readRecord(pstore, name); ok {
			records = append(records, r)
		}
	}
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.part, b.part)) })
	return records, files, nil
}

// readRecord reads one. It is none if the kernel could not unpack it.
func readRecord(pstore fs.FS, name string) (r record, ok bool) {
	file, err := pstore.Open(name)
	if err != nil {
		return r, false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return r, false
	}
	text, err := io.ReadAll(io.LimitReader(file, recordBytes))
	head := recordHead.FindSubmatch(text)
	if err != nil || head == nil {
		return r, false
	}
	part, _ := strconv.Atoi(string(head[3])) // it has digits only
	return record{
		file: name, kind: string(head[1]), count: string(head[2]), part: part, at: info.ModTime(),
		text: string(bytes.TrimPrefix(text, head[0])),
	}, true
}

// crash is the end of a start of the machine: its kernel panicked.
type crash struct {
	id     string        // of these words, at this time
	reason string        // the line that says why, and where
	after  time.Duration // from the start of the kernel
	at     time.Time
	lines  []kernelLine
	files  []string
}

// kernelLine is a line of the kernel's log.
type kernelLine struct {
	priority int // 0 is the worst
	after    time.Duration
	text     string
}

// crashes puts records together, the oldest crash first. What is no panic did not end a start, and is left out.
func crashes(records []record) (all []crash) {
	for len(records) > 0 {
		first, n := records[0], 1
		for n < len(records) && records[n].kind == first.kind && records[n].count == first.count && records[n].part > records[n-1].part {
			n++
		}
		if first.kind == "Panic" {
			all = append(all, newCrash(records[:n]))
		}
		records = records[n:]
	}
	return all
}

// newCrash puts the parts of one together.
func newCrash(parts []record) crash {
	sum := sha256.New()
	c := crash{at: parts[0].at}
	for _, r := range slices.Backward(parts) {
		c.files = append(c.files, r.file)
		_, _ = io.WriteString(sum, r.text)
		for line := range strings.Lines(r.text) {
			c.lines = append(c.lines, parseLine(line))
		}
	}
	_, _ = io.WriteString(sum, c.at.UTC().Format(time.RFC3339))
	c.id = hex.EncodeToString(sum.Sum(nil)[:16])
	c.explain()
	c.lines = c.lines[max(0, len(c.lines)-wordsKept):]
	return c
}

// linePattern is a line as a record has it: <0>[   12.345678] text. Kernels may name the processor or the thread behind the time.
var linePattern = regexp.MustCompile(`^<(\d{1,4})>\[ *(\d{1,9}\.\d{1,9})\](?:\[ *[A-Z]\d+\])? ?(.*)`)

func parseLine(line string) kernelLine {
	line = strings.TrimRight(line, "\n")
	found := linePattern.FindStringSubmatch(line)
	if found == nil {
		return kernelLine{priority: 4, text: line} // more of the line before
	}
	priority, _ := strconv.Atoi(found[1]) // they have digits only
	seconds, _ := strconv.ParseFloat(found[2], 64)
	return kernelLine{priority & 7, time.Duration(seconds * float64(time.Second)), found[3]}
}

const panicWords = "Kernel panic - not syncing"

// codeAt is where in the kernel the processor was.
var codeAt = regexp.MustCompile(`RIP: 0010:([A-Za-z0-9_.]{1,80})\+0x`)

// explain finds the line that says why the kernel panicked. Of one that names no place, the place is the last one before it.
func (c *crash) explain() {
	place := ""
	c.reason = panicWords + ", for a reason that was not kept"
	for _, line := range c.lines {
		if found := codeAt.FindStringSubmatch(line.text); found != nil {
			place = " (in " + found[1] + ")"
		}
		if _, why, found := strings.Cut(line.text, panicWords); found {
			c.reason, c.after = progress.Text(panicWords+why, maxReason)+place, line.after
			return
		}
	}
}

// lastWords are a few lines up to that which says why.
func (c *crash) lastWords() (texts []string) {
	end := 1 + slices.IndexFunc(c.lines, func(l kernelLine) bool { return strings.Contains(l.text, panicWords) })
	for _, line := range c.lines[max(0, end-wordsShown):end] {
		texts = append(texts, line.text)
	}
	return texts
}

// varying differs from one panic to the next that is the same: addresses, numbers of processes and processors, exit codes.
var varying = regexp.MustCompile(`\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b`)

func samePanic(a, b string) bool {
	return varying.ReplaceAllString(a, "") == varying.ReplaceAllString(b, "")
}

// panics counts the starts, one after the other, that ended with the same panic. The firmware keeps this, so that it survives a power cut and
// needs no disk.
type panics struct {
	ID     string `json:"id,omitempty"` // of the last one that was counted
	Reason string `json:"reason,omitempty"`
	Times  int    `json:"times,omitempty"`
}

// From so many times on the machine is held, and holds even still: then it panicked while it was held.
const (
	heldFrom  = 2
	stillFrom = 3
)

// parsePanics reads what was kept. What is none of that counts as nothing.
func parsePanics(text []byte) (p panics) {
	if json.Unmarshal(text, &p) != nil || p.Times < 0 || len(p.ID) > 64 {
		return panics{}
	}
	p.Times, p.Reason = min(p.Times, stillFrom), progress.Text(p.Reason, 2*maxReason)
	return p
}

// after is the count once the crashes that are there were counted. One that was counted already may be there still.
func (p panics) after(found []crash) panics {
	fresh := found
	for i, c := range found {
		if c.id == p.ID {
			fresh = found[i+1:]
		}
	}
	if len(fresh) == 0 { // the start before this one ended in another way
		if len(found) == 0 {
			return panics{}
		}
		return panics{ID: p.ID}
	}
	for _, c := range fresh {
		times := 1
		switch {
		case p.held(): // whatever the reason is now: it was to do nothing
			times = stillFrom
		case c.after > lateAfter:
			times = 0
		case p.Times > 0 && samePanic(p.Reason, c.reason):
			times = p.Times + 1
		}
		p = panics{c.id, c.reason, times}
	}
	return p
}

func (p panics) held() bool { return p.Times >= heldFrom }

// still reports whether it panicked while it was held.
func (p panics) still() bool { return p.Times >= stillFrom }

// resetReason stands in the place of what a kernel says: the hardware has restarted a machine that hung, and nothing was kept.
const resetReason = "the watchdog of this machine has restarted it"

// afterReset is the count if the watchdog of the hardware ended the start before. A machine that was held because of that starts over: whether its
// hardware says so of this start or of an earlier one is not certain.
func (p panics) afterReset() panics {
	times := 1
	if p.Reason == resetReason && !p.held() {
		times = p.Times + 1
	}
	return panics{p.ID, resetReason, times}
}

// trouble says how the last start ended.
func (p panics) trouble() error {
	const mend = "start another image, or look at the hardware%s; turned off and on again, the machine makes two more starts"
	switch {
	case p.Reason == resetReason && p.held():
		return writ.Errorf(writ.CodeInternal, "%s at the end of two starts: it hung", p.Reason).WithHint(mend, "")
	case p.Reason == resetReason:
		return writ.Errorf(writ.CodeInternal, "%s: it hung", p.Reason).WithHint("look at what it logged last, and at its hardware; if the next start ends in the same way, it is held")
	case !p.held():
		return writ.Errorf(writ.CodeInternal, "the last start of this machine ended with: %s", p.Reason).
			WithHint("the lines of its kernel are in the log below the source %s; if the next start ends in the same way, it is held", sourceKernel)
	}
	when := "in the same way at the end of two starts"
	if p.still() {
		when = "while this machine was held"
	}
	return writ.Errorf(writ.CodeInternal, "the kernel panicked %s: %s", when, p.Reason).
		WithHint(mend, " that the words of the kernel name")
}

// crash keeps the last words of a kernel. They may have its command line, and with it the token.
func (l *logs) crash(c crash) {
	for _, line := range c.lines {
		level := "error"
		switch {
		case line.priority > 4:
			level = "info"
		case line.priority == 4:
			level = "warn"
		}
		at := c.at.Add(line.after - c.after)
		l.add(sourceKernel, level, fmt.Sprintf("before the restart, [%.6f] %s", line.after.Seconds(), clean(Redacted(line.text))), at)
	}
}
