package boot

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ/internal/logring"
)

// The sources of lines besides services and the runner, which keeps its own.
const (
	sourceBoot   = "boot"
	sourceKernel = "kernel"
)

// logs keep what the first process, the kernel and services say, for the runner to tell: each in a ring, so that one that says much takes the place of
// no other. Until the disk is there, lines wait in memory.
type logs struct {
	redact func(text string) string
	boot   string // the kernel's id of this start

	mu      sync.Mutex
	rings   map[string]*logring.Ring
	dir     string // "" while there is no disk
	running context.Context
	stop    context.CancelFunc
	writing sync.WaitGroup
}

func newLogs(redact func(text string) string) *logs {
	l := &logs{redact: redact, rings: map[string]*logring.Ring{}}
	l.running, l.stop = context.WithCancel(context.Background())
	return l
}

// add adds a line of a source.
func (l *logs) add(source, level, text string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.boot == "" {
		l.boot = logring.Boot() // now that there is a /proc
	}
	ring := l.rings[source]
	if ring == nil {
		ring = logring.New()
		l.rings[source] = ring
		l.write(source, ring)
	}
	ring.Add(logring.Line{Time: at, Boot: l.boot, Level: level, Text: l.redact(text)})
}

// write writes a ring to its file from now on, if there is a disk. The caller holds mu.
func (l *logs) write(source string, ring *logring.Ring) {
	if l.dir == "" || l.running.Err() != nil {
		return
	}
	file := logring.File(l.dir, source)
	l.writing.Go(func() { _ = ring.Run(l.running, file) }) // what is on the consoles is all that could be told
}

// begin writes all lines to the disk with the data, from now on.
func (l *logs) begin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the logs: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dir = dir
	for source, ring := range l.rings {
		l.write(source, ring)
	}
	return nil
}

// end writes what waits, and leaves the disk.
func (l *logs) end() {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.writing.Wait()
}

// stage keeps what was shown of a stage.
func (l *logs) stage(name, text string) {
	level := "info"
	switch {
	case strings.HasPrefix(text, "error: "):
		level = "error"
	case strings.Contains(text, "ended with "): // a program that should not
		level = "warn"
	}
	l.add(sourceBoot, level, name+": "+text, time.Now())
}

// service keeps a line of a service.
func (l *logs) service(name, line string) { l.add(name, levelOf(line), line, time.Now()) }

// runner keeps a line of the runner that is not of its log, such as those of a panic.
func (l *logs) runner(line string) {
	if !strings.HasPrefix(line, "time=") && line != "" {
		l.add(sourceBoot, "error", "runner: "+line, time.Now())
	}
}

// levelPattern finds the level in what programs of Go and Rust write by custom: level=warning, "level":"warn", or WARN behind the time.
var levelPattern = regexp.MustCompile(`\blevel"?[=:] ?"?(\w+)|^.{0,40}?\b(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b`)

// levelOf is the level of a line that a service wrote, "info" if it does not say.
func levelOf(line string) string {
	found := levelPattern.FindStringSubmatch(line)
	if found == nil {
		return "info"
	}
	switch strings.ToLower(found[1] + found[2]) {
	case "trace", "debug":
		return "debug"
	case "warn", "warning":
		return "warn"
	case "error", "fatal", "panic":
		return "error"
	}
	return "info"
}

// parseKernel takes a record of /dev/kmsg apart: "4,1234,5678901,-;text", with more lines behind it. ok is false unless it is a warning or worse. after
// is how long the machine ran then.
func parseKernel(record string) (level, text string, after time.Duration, ok bool) {
	head, rest, found := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < 3 {
		return "", "", 0, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	micros, wrong := strconv.ParseInt(fields[2], 10, 64)
	text, _, _ = strings.Cut(rest, "\n")
	switch priority &= 7; {
	case err != nil || wrong != nil || priority > 4:
		return "", "", 0, false
	case priority == 4:
		level = "warn"
	default:
		level = "error"
	}
	return level, text, time.Duration(micros) * time.Microsecond, true
}
