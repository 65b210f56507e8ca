package simulated

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// maxLog bounds a file of a simulated log, in bytes; it is small, so that tests see how lines are lost.
const maxLog = 4 << 10

var _ sal.Logging = (*Driver)(nil)

// Written is part of sal.Logging.
func (d *Driver) Written(_ context.Context, resource writ.ResourceID, after string) (bool, error) {
	r, err := d.records.Get(resource)
	if err != nil || r == nil {
		return false, err
	}
	return d.logOf(resource, r.UID).Written(after)
}

// logOf is what a machine or container is said to have written.
func (d *Driver) logOf(resource writ.ResourceID, uid writ.UID) *sal.Log {
	return &sal.Log{Path: filepath.Join(d.dir, "logs", resource.HostName()+".log"), Stream: string(uid)}
}

// readLog is the part of a log that was asked for.
func (d *Driver) readLog(request sal.Request) (map[string]any, error) {
	part, err := d.logOf(request.Resource, request.UID).Part(request.Args.(*catalog.LogPart))
	if err != nil {
		return nil, sal.HostError("read what "+request.Resource.String()+" wrote", err)
	}
	return map[string]any{"text": part.Text, "next": part.Next, "lost": part.Lost, "more": part.More}, nil
}

// touchMachine writes to the console what a guest does that is started or turned off.
func touchMachine(d *Driver, request sal.Request) error {
	switch request.Operation.Verb {
	case "create", "start", "restore":
		return d.touchLog(request, "booting "+request.Resource.String(), request.Resource.Name+" login:")
	case "stop":
		return d.touchLog(request, "power down")
	}
	return d.touchLog(request)
}

// touchContainer writes to the log of a container that is started or ends.
func touchContainer(d *Driver, request sal.Request) error {
	switch request.Operation.Verb {
	case "create", "start":
		return d.touchLog(request, request.Resource.String()+" started")
	case "stop":
		return d.touchLog(request, request.Resource.String()+" stopped")
	}
	return d.touchLog(request)
}

// touchLog adds lines to a log, or removes it with its resource. After a crash they may be there twice, as with whatever is started twice.
func (d *Driver) touchLog(request sal.Request, lines ...string) error {
	log := d.logOf(request.Resource, request.UID)
	if request.Operation.Effect == catalog.Remove {
		return log.Remove()
	}
	if len(lines) == 0 {
		return nil
	}
	r, err := d.recovered(request.Resource)
	if err != nil {
		return err
	}
	if r == nil { // there may be one of a resource that was never finished
		if err := log.Remove(); err != nil {
			return err
		}
	}
	if err := sal.MakeDir(filepath.Dir(log.Path)); err != nil {
		return err
	}
	d.step("log")
	if info, err := os.Stat(log.Path); err == nil && info.Size() > maxLog {
		if err := log.PutAside(); err != nil {
			return err
		}
	}
	text := ""
	for _, line := range lines {
		text += simulatedLine("%s", line) + "\n"
	}
	f, err := os.OpenFile(log.Path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprint(f, text)
	return err
}
