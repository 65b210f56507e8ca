package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
)

// Script is a script with its modules and what a check says of it.
type Script struct {
	Path   string
	Bundle scripts.Bundle
	Report scripts.Report
}

// maxFile bounds what is read of one file; a longer one is refused by the check, with a better message.
const maxFile = scripts.MaxSource + 1

// ReadScript reads and checks a script. What it imports and is not built in is looked for beside it, under the name with ".tengo" at
// the end, and nowhere else.
func ReadScript(path string) (Script, error) {
	text, err := readStart(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return Script{}, writ.Errorf(writ.CodeUsage, "cannot read the script: %v", err)
	}
	return ReadScriptAs(path, text)
}

// ReadScriptAs checks a text as if it were in the file, which need not exist: an editor has not saved it yet.
func ReadScriptAs(path string, text []byte) (Script, error) {
	beside, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Script{}, writ.Errorf(writ.CodeUsage, "cannot read the script: %v", err)
	}
	defer beside.Close()
	bundle, err := scripts.Resolve(scripts.Source{Name: filepath.Base(path), Text: text}, func(module string) ([]byte, error) {
		if !fs.ValidPath(module) {
			return nil, fs.ErrNotExist
		}
		return readStart(beside.FS(), module+".tengo")
	})
	if err != nil {
		return Script{}, fmt.Errorf("read the script: %w", err)
	}
	return Script{Path: path, Bundle: bundle, Report: scripts.Check(bundle)}, nil
}

// NewScript checks a script that is in memory and imports nothing of its own.
func NewScript(name string, text []byte) Script {
	bundle := scripts.Bundle{Main: scripts.Source{Name: name, Text: text}}
	return Script{Path: name, Bundle: bundle, Report: scripts.Check(bundle)}
}

func readStart(dir fs.FS, name string) ([]byte, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	text := make([]byte, min(info.Size(), maxFile))
	n, err := io.ReadFull(f, text)
	return text[:n], err
}

// Order is what a person wants to have done with a script.
type Order struct {
	Script      Script
	Params      map[string]any // those that are given; the script's defaults are filled in
	Datacenter  writ.DatacenterID
	Project     identity.Project
	Deployment  identity.Deployment
	Expires     time.Duration // from now
	Deadline    time.Duration // from acceptance
	MaxCalls    int
	Destructive bool // what the script destroys is meant to be destroyed
}

// Payload returns the text to sign for an order, by a principal who knows a roster.
func (o Order) Payload(roster *identity.Roster, signer string, now time.Time) ([]byte, error) {
	if err := o.Script.Report.Err(); err != nil {
		return nil, err
	}
	if o.Script.Report.Destructive && !o.Destructive {
		return nil, writ.Errorf(writ.CodeDestructiveDenied, "%s may delete or overwrite data", o.Script.Path).
			WithHint("say --destructive if that is meant; `writ check` lists its operations")
	}
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return nil, err
	}
	p := &identity.Payload{
		Cluster:     roster.Cluster,
		Datacenter:  o.Datacenter,
		Roster:      roster.Version,
		Project:     o.Project.ID,
		ProjectName: o.Project.Name,
		Deployment:  o.Deployment,
		Signer:      signer,
		Created:     now,
		Expires:     now.Add(o.Expires),
		Deadline:    o.Deadline,
		Nonce:       identity.NewNonce(),
		Engine:      scripts.Engine,
		Allow:       o.Script.Report.Operations,
		Destructive: o.Destructive && o.Script.Report.Destructive,
		MaxCalls:    o.MaxCalls,
		Params:      params,
		Script:      identity.File(o.Script.Bundle.Main),
	}
	for _, m := range o.Script.Bundle.Modules {
		p.Modules = append(p.Modules, identity.File(m))
	}
	text, err := p.Text()
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodePayloadMalformed {
		return nil, writ.Errorf(writ.CodeUsage, "%s", e.Message) // nobody's forgery, but what this person asks for
	}
	return text, err
}
