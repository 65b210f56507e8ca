package simulated

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/logfile"
)

// maxLog limits a file of a simulated log, in bytes. It is small, so that tests can observe the loss of lines.
const maxLog = 4 << 10

var _ sal.Logging = (*Driver)(nil)

// Written implements sal.Logging.
func (d *Driver) Written(_ context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := d.store.records.Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	return d.logs.of(resource, r.UID).Written(after)
}

// logs are the simulated logs of machines and containers.
type logs struct {
	dir  string
	step func(name string)
}

// of returns the log of a resource.
func (l logs) of(resource writ.ResourceID, uid writ.UID) *logfile.Log {
	return &logfile.Log{Path: filepath.Join(l.dir, resource.HostName()+".log"), Stream: string(uid)}
}

// read returns the requested part of a log.
func (l logs) read(request sal.Request) (map[string]any, error) {
	part, err := l.of(request.Resource, request.UID).Part(request.Args.(*catalog.LogPart))
	if err != nil {
		return nil, sal.HostError("read the log of "+request.Resource.String(), err)
	}
	return map[string]any{"text": part.Text, "next": part.Next, "lost": part.Lost, "more": part.More}, nil
}

// add appends lines to a log. If the file exceeds maxLog, it is renamed first.
func (l logs) add(log *logfile.Log, lines []string) error {
	if err := sal.MakeDir(filepath.Dir(log.Path)); err != nil {
		return err
	}
	l.step("log")
	if info, err := os.Stat(log.Path); err == nil && info.Size() > maxLog {
		if err := log.PutAside(); err != nil {
			return err
		}
	}
	text := ""
	for _, line := range lines {
		text += simulatedLine(line) + "\n"
	}
	f, err := os.OpenFile(log.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprint(f, text)
	return err
}

// touchMachine writes the console output of a guest that boots or powers down.
func touchMachine(d *Driver, request sal.Request) error {
	switch request.Operation.Verb {
	case "create", "start", "restore":
		return touchLog(d, request, "booting "+request.Resource.String(), request.Resource.Name+" login:")
	case "stop":
		return touchLog(d, request, "power down")
	}
	return touchLog(d, request)
}

// touchContainer writes to the log of a container that starts or ends.
func touchContainer(d *Driver, request sal.Request) error {
	switch request.Operation.Verb {
	case "create", "start":
		return touchLog(d, request, request.Resource.String()+" started")
	case "stop":
		return touchLog(d, request, request.Resource.String()+" stopped")
	}
	return touchLog(d, request)
}

// touchLog appends lines to the log of a resource. A Remove operation removes the log instead. After a crash, the log
// may contain the lines twice, as if a program had started twice.
func touchLog(d *Driver, request sal.Request, lines ...string) error {
	log := d.logs.of(request.Resource, request.UID)
	if request.Operation.Effect == catalog.Remove {
		return log.Remove()
	}
	if len(lines) == 0 {
		return nil
	}
	r, err := d.store.get(request.Resource)
	if err != nil {
		return err
	}
	if r == nil { // a resource that was never completed may have left a log
		if err := log.Remove(); err != nil {
			return err
		}
	}
	return d.logs.add(log, lines)
}
