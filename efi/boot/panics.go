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

// Limits on the log of a panicked kernel. The firmware stores it, and an attacker may have written it.
const (
	maxRecords  = 64
	recordBytes = 64 << 10
	wordsKept   = 100 // lines, from the end
	wordsShown  = 20  // lines shown on the console
	maxReason   = 200 // in bytes
)

// lateAfter is the uptime after which a panic does not count as a failed start.
const lateAfter = time.Hour

// record is one part of the log of a panic. Part 1 holds the last lines.
type record struct {
	file, kind, count string
	part              int
	at                time.Time
	text              string
}

// recordHead matches the first line of a record.
var recordHead = regexp.MustCompile(`^(Panic|Oops)#(\d{1,9}) Part(\d{1,9})\n`)

// readRecords reads the records in a pstore directory, ordered by time and part. files lists all record files,
// including unreadable ones.
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
	slices.SortStableFunc(records,
		func(a, b record) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.part, b.part)) })
	return records, files, nil
}

// readRecord reads one record. ok is false if the record is unreadable, for example because the kernel could not
// decompress it.
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
	part, _ := strconv.Atoi(string(head[3])) // digits only, so it cannot fail
	return record{
		file: name, kind: string(head[1]), count: string(head[2]), part: part, at: info.ModTime(),
		text: string(bytes.TrimPrefix(text, head[0])),
	}, true
}

// crash is a kernel panic that ended an earlier run of the machine.
type crash struct {
	id     string        // digest of the log and the time
	reason string        // the message of the panic and its place in the kernel
	after  time.Duration // uptime at the panic
	at     time.Time
	lines  []kernelLine
	files  []string
}

// kernelLine is a line of the kernel log.
type kernelLine struct {
	priority int // 0 is the most severe
	after    time.Duration
	text     string
}

// crashes assembles the panics in records, oldest first. Other records, such as an oops, did not end a run and are
// omitted.
func crashes(records []record) (all []crash) {
	for len(records) > 0 {
		first, n := records[0], 1
		for n < len(records) && records[n].kind == first.kind && records[n].count == first.count &&
			records[n].part > records[n-1].part {
			n++
		}
		if first.kind == "Panic" {
			all = append(all, newCrash(records[:n]))
		}
		records = records[n:]
	}
	return all
}

// newCrash assembles the parts of one panic.
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

// linePattern matches a line of a record: <0>[ 12.345678] text. Some kernels print the CPU or the thread after the
// time.
var linePattern = regexp.MustCompile(`^<(\d{1,4})>\[ *(\d{1,9}\.\d{1,9})\](?:\[ *[A-Z]\d+\])? ?(.*)`)

func parseLine(line string) kernelLine {
	line = strings.TrimRight(line, "\n")
	found := linePattern.FindStringSubmatch(line)
	if found == nil {
		return kernelLine{priority: 4, text: line} // continuation of the previous line
	}
	priority, _ := strconv.Atoi(found[1]) // digits only, so they cannot fail
	seconds, _ := strconv.ParseFloat(found[2], 64)
	return kernelLine{priority & 7, time.Duration(seconds * float64(time.Second)), found[3]}
}

const panicWords = "Kernel panic - not syncing"

// codeAt matches the function that the CPU executed.
var codeAt = regexp.MustCompile(`RIP: 0010:([A-Za-z0-9_.]{1,80})\+0x`)

// explain finds the message of the panic. The place is the last one logged before it.
func (c *crash) explain() {
	place := ""
	c.reason = panicWords + ", for an unknown reason"
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

// lastWords returns a few lines up to the message of the panic.
func (c *crash) lastWords() (texts []string) {
	end := 1 + slices.IndexFunc(c.lines, func(l kernelLine) bool { return strings.Contains(l.text, panicWords) })
	for _, line := range c.lines[max(0, end-wordsShown):end] {
		texts = append(texts, line.text)
	}
	return texts
}

// varying matches the parts that differ between repetitions of a panic: addresses, ids of processes and CPUs, exit
// codes.
var varying = regexp.MustCompile(`\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b`)

func samePanic(a, b string) bool {
	return varying.ReplaceAllString(a, "") == varying.ReplaceAllString(b, "")
}

// panics counts consecutive runs that ended in the same panic. The firmware stores it, so it survives a power failure
// and needs no disk.
type panics struct {
	ID     string `json:"id,omitempty"` // of the last counted panic
	Reason string `json:"reason,omitempty"`
	Times  int    `json:"times,omitempty"`
}

// The number of panics from which a machine is held, and from which it must have panicked while held.
const (
	heldFrom  = 2
	stillFrom = 3
)

// parsePanics parses the stored count. Invalid data counts as zero.
func parsePanics(text []byte) (p panics) {
	if json.Unmarshal(text, &p) != nil || p.Times < 0 || len(p.ID) > 64 {
		return panics{}
	}
	p.Times, p.Reason = min(p.Times, stillFrom), progress.Text(p.Reason, 2*maxReason)
	return p
}

// after returns the count updated with the crashes found. A crash may have been counted before.
func (p panics) after(found []crash) panics {
	fresh := found
	for i, c := range found {
		if c.id == p.ID {
			fresh = found[i+1:]
		}
	}
	if len(fresh) == 0 { // no new crash: the previous run ended in another way
		if len(found) == 0 {
			return panics{}
		}
		return panics{ID: p.ID}
	}
	for _, c := range fresh {
		times := 1
		switch {
		case p.held(): // for any reason: a held machine does nothing
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

// still reports whether the machine panicked while it was held.
func (p panics) still() bool { return p.Times >= stillFrom }

// resetReason replaces the panic message if the hardware watchdog restarted a hung machine. No log exists then.
const resetReason = "the watchdog of this machine has restarted it"

// afterReset returns the count updated for a reset by the hardware watchdog. The count of a machine that was held
// because of a reset starts over, because the hardware may still report an earlier reset.
func (p panics) afterReset() panics {
	times := 1
	if p.Reason == resetReason && !p.held() {
		times = p.Times + 1
	}
	return panics{p.ID, resetReason, times}
}

// trouble returns the error that describes how the last run ended.
func (p panics) trouble() error {
	const mend = "start another image, or check the hardware%s; after it is turned off and on, the machine makes two more starts"
	switch {
	case p.Reason == resetReason && p.held():
		return writ.Errorf(writ.CodeInternal, "%s at the end of two starts: it hung", p.Reason).WithHint(mend, "")
	case p.Reason == resetReason:
		return writ.Errorf(writ.CodeInternal, "%s: it hung", p.Reason).
			WithHint("check its last log lines and its hardware; if the next start ends in the same way, it is held")
	case !p.held():
		return writ.Errorf(writ.CodeInternal, "the last start of this machine ended with: %s", p.Reason).
			WithHint("its kernel log is stored under the source %s; if the next start ends in the same way, it is held",
				sourceKernel)
	}
	when := "in the same way at the end of two starts"
	if p.still() {
		when = "while this machine was held"
	}
	return writ.Errorf(writ.CodeInternal, "the kernel panicked %s: %s", when, p.Reason).
		WithHint(mend, " that the kernel log names")
}

// crash stores the kernel log of a panic. The log may contain the command line and thus the token, which it redacts.
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
		l.add(sourceKernel, level,
			fmt.Sprintf("before the restart, [%.6f] %s", line.after.Seconds(), clean(Redacted(line.text))), at)
	}
}
