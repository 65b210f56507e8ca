// Package panics reads the kernel panics that ended earlier runs of a machine from pstore, and counts consecutive runs
// that ended in the same way. A variable of the firmware holds the count. A machine that panicked twice is held. The
// log of a panic is untrusted: the package limits its size. It does not redact the log.
package panics

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/lazyregexp"
)

// Limits on the log of a panicked kernel. The firmware stores it, and an attacker may have written it.
const (
	maxRecords  = 64
	recordBytes = 64 << 10
	wordsKept   = 100 // lines, from the end
	wordsShown  = 20  // lines shown on the console
	maxReason   = 200 // in bytes
)

// LateAfter is the uptime after which a panic does not count as a failed start.
const LateAfter = time.Hour

// record is one part of the log of a panic. Part 1 holds the last lines.
type record struct {
	file, kind, count string
	part              int
	at                time.Time
	text              string
}

// recordHead matches the first line of a record.
var recordHead = lazyregexp.New(`^(Panic|Oops)#(\d{1,9}) Part(\d{1,9})\n`)

// Read returns the panics in a pstore directory, oldest first. files lists all record files, including unreadable ones.
func Read(pstore fs.FS) (found []Crash, files []string, err error) {
	records, files, err := readRecords(pstore)
	return crashes(records), files, err
}

// readRecords reads the records in a pstore directory, ordered by time and part.
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

// Crash is a kernel panic that ended an earlier run of the machine.
type Crash struct {
	id     string        // digest of the log and the time
	reason string        // the message of the panic and its place in the kernel
	After  time.Duration // uptime at the panic
	At     time.Time
	Lines  []Line   // last lines of the kernel log
	Files  []string // records of the panic in pstore
}

// Line is a line of the kernel log.
type Line struct {
	Priority int           // 0 is the most severe
	After    time.Duration // uptime
	Text     string
}

// crashes assembles the panics in records, oldest first. Other records, such as an oops, did not end a run and are
// omitted.
func crashes(records []record) (all []Crash) {
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
func newCrash(parts []record) Crash {
	sum := sha256.New()
	c := Crash{At: parts[0].at}
	for _, r := range slices.Backward(parts) {
		c.Files = append(c.Files, r.file)
		_, _ = io.WriteString(sum, r.text)
		for line := range strings.Lines(r.text) {
			c.Lines = append(c.Lines, parseLine(line))
		}
	}
	_, _ = io.WriteString(sum, c.At.UTC().Format(time.RFC3339))
	c.id = hex.EncodeToString(sum.Sum(nil)[:16])
	c.explain()
	c.Lines = c.Lines[max(0, len(c.Lines)-wordsKept):]
	return c
}

// linePattern matches a line of a record: <0>[ 12.345678] text. Some kernels print the CPU or the thread after the
// time.
var linePattern = lazyregexp.New(`^<(\d{1,4})>\[ *(\d{1,9}\.\d{1,9})\](?:\[ *[A-Z]\d+\])? ?(.*)`)

func parseLine(line string) Line {
	line = strings.TrimRight(line, "\n")
	found := linePattern.FindStringSubmatch(line)
	if found == nil {
		return Line{Priority: 4, Text: line} // continuation of the previous line
	}
	priority, _ := strconv.Atoi(found[1]) // digits only, so they cannot fail
	seconds, _ := strconv.ParseFloat(found[2], 64)
	return Line{priority & 7, time.Duration(seconds * float64(time.Second)), found[3]}
}

const panicWords = "Kernel panic - not syncing"

// codeAt matches the function that the CPU executed.
var codeAt = lazyregexp.New(`RIP: 0010:([A-Za-z0-9_.]{1,80})\+0x`)

// explain finds the message of the panic. The place is the last function logged before the message.
func (c *Crash) explain() {
	place := ""
	c.reason = panicWords + ", for an unknown reason"
	for _, line := range c.Lines {
		if found := codeAt.FindStringSubmatch(line.Text); found != nil {
			place = " (in " + found[1] + ")"
		}
		if _, why, found := strings.Cut(line.Text, panicWords); found {
			c.reason, c.After = progress.Text(panicWords+why, maxReason)+place, line.After
			return
		}
	}
}

// LastWords returns a few lines up to the message of the panic.
func (c *Crash) LastWords() (texts []string) {
	end := 1 + slices.IndexFunc(c.Lines, func(l Line) bool { return strings.Contains(l.Text, panicWords) })
	for _, line := range c.Lines[max(0, end-wordsShown):end] {
		texts = append(texts, line.Text)
	}
	return texts
}

// varying matches the parts that differ between repetitions of a panic: addresses, ids of processes and CPUs, exit
// codes.
var varying = lazyregexp.New(`\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b`)

func samePanic(a, b string) bool {
	return varying.ReplaceAllString(a, "") == varying.ReplaceAllString(b, "")
}

// Count counts consecutive runs that ended in the same panic. The firmware stores it, so it survives a power failure
// and needs no disk.
type Count struct {
	ID     string `json:"id,omitempty"` // of the last counted panic
	Reason string `json:"reason,omitempty"`
	Times  int    `json:"times,omitempty"`
}

// heldFrom is the number of consecutive panics after which a machine is held. A count of stillFrom means that the
// machine also panicked while it was held.
const (
	heldFrom  = 2
	stillFrom = 3
)

// parsePanics parses the stored count. Invalid data counts as zero.
func parsePanics(text []byte) (p Count) {
	if json.Unmarshal(text, &p) != nil || p.Times < 0 || len(p.ID) > 64 {
		return Count{}
	}
	p.Times, p.Reason = min(p.Times, stillFrom), progress.Text(p.Reason, 2*maxReason)
	return p
}

// After returns the count updated with the crashes in found. It skips crashes that were counted before.
func (p Count) After(found []Crash) Count {
	fresh := found
	for i, c := range found {
		if c.id == p.ID {
			fresh = found[i+1:]
		}
	}
	if len(fresh) == 0 { // no new crash: the previous run ended in another way
		if len(found) == 0 {
			return Count{}
		}
		return Count{ID: p.ID}
	}
	for _, c := range fresh {
		times := 1
		switch {
		case p.Held(): // for any reason: a held machine starts no node
			times = stillFrom
		case c.After > LateAfter:
			times = 0
		case p.Times > 0 && samePanic(p.Reason, c.reason):
			times = p.Times + 1
		}
		p = Count{c.id, c.reason, times}
	}
	return p
}

// Held reports whether the machine must not start its node.
func (p Count) Held() bool { return p.Times >= heldFrom }

// Still reports whether the machine panicked while it was held.
func (p Count) Still() bool { return p.Times >= stillFrom }

// resetReason replaces the panic message if the hardware watchdog restarted a hung machine. No log exists then.
const resetReason = "the watchdog of this machine has restarted it"

// AfterReset returns the count updated for a reset by the hardware watchdog. The count of a machine that was held
// because of a reset starts over, because the hardware may still report an earlier reset.
func (p Count) AfterReset() Count {
	times := 1
	if p.Reason == resetReason && !p.Held() {
		times = p.Times + 1
	}
	return Count{p.ID, resetReason, times}
}

// Trouble returns the error that describes how the last run ended.
func (p Count) Trouble() error {
	const mend = "start another image, or check the hardware%s; after a power cycle, the machine starts two more times"
	switch {
	case p.Reason == resetReason && p.Held():
		return writ.Errorf(writ.CodeInternal, "%s at the end of two starts: it hung", p.Reason).WithHint(mend, "")
	case p.Reason == resetReason:
		return writ.Errorf(writ.CodeInternal, "%s: it hung", p.Reason).
			WithHint("check its last log lines and its hardware; if the next start ends in the same way, it is held")
	case !p.Held():
		return writ.Errorf(writ.CodeInternal, "the last start of this machine ended with: %s", p.Reason).
			WithHint("its kernel log is stored under the source kernel; if the next start ends in the same way, it is held")
	}
	when := "in the same way at the end of two starts"
	if p.Still() {
		when = "while this machine was held"
	}
	return writ.Errorf(writ.CodeInternal, "the kernel panicked %s: %s", when, p.Reason).
		WithHint(mend, " that the kernel log names")
}
