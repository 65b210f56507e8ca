package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"writ"
	"writ/internal/failpoint"
	"writ/sal"
)

const effectsFile = "effects.log"

// Effect is one simulated change of the host. With a real driver, the change would be a process, a file or a rule.
type Effect struct {
	Key        string          `json:"key"` // of the job that caused it
	Operation  string          `json:"operation"`
	Resource   writ.ResourceID `json:"resource"`
	UID        writ.UID        `json:"uid"`
	Generation int64           `json:"generation"`        // counts the effects on the resource with this UID, from 1
	Failure    bool            `json:"failure,omitempty"` // not an effect, but a failure requested by a flaky name
}

func newEffect(request sal.Request, generation int64) Effect {
	return Effect{
		Key:        request.Key,
		Operation:  request.Operation.Name(),
		Resource:   request.Resource,
		UID:        request.UID,
		Generation: generation,
	}
}

// ReadEffects returns the effects of all modules that any process simulated in a directory, module by module and oldest
// first. A job that took effect n times has n effects with its key.
func ReadEffects(dir string) ([]Effect, error) {
	var all []Effect
	for _, module := range Modules {
		log := effects{path: filepath.Join(dir, module, effectsFile)}
		some, err := log.read()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// effects is an append-only file.
type effects struct {
	path string
	mu   sync.Mutex // one line at a time
}

// repair removes an incomplete last line, which a power cut or a full disk left. The effect of such a line was never
// reported as done.
//
//failpoint:none it truncates what a crash left, at every start
func (e *effects) repair() error {
	text, err := os.ReadFile(e.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && bytes.HasSuffix(text, []byte{'\n'}) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Truncate(e.path, int64(bytes.LastIndexByte(text, '\n')+1))
}

// add appends a line and syncs it. It first removes an incomplete line, left by a full disk.
func (e *effects) add(effect Effect) error {
	line, err := json.Marshal(effect)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.repair(); err != nil {
		return err
	}
	f, err := os.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = failpoint.OfFile(e.path).Write(f, append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	failpoint.OfFile(e.path).End(err)
	return err
}

// read returns the effects, without the failures.
func (e *effects) read() ([]Effect, error) {
	var all []Effect
	err := e.scan(func(effect Effect) {
		if !effect.Failure {
			all = append(all, effect)
		}
	})
	return all, err
}

// has reports whether the effect with this UID and generation took place.
func (e *effects) has(uid writ.UID, generation int64) (found bool, err error) {
	err = e.scan(func(effect Effect) {
		found = found || !effect.Failure && effect.UID == uid && effect.Generation == generation
	})
	return found, err
}

// hasAfter reports whether an effect of a later generation took place.
func (e *effects) hasAfter(uid writ.UID, generation int64) (found bool, err error) {
	err = e.scan(func(effect Effect) {
		found = found || !effect.Failure && effect.UID == uid && effect.Generation > generation
	})
	return found, err
}

// failures counts the failures of a resource that its name has caused so far.
func (e *effects) failures(resource writ.ResourceID) (n int, err error) {
	err = e.scan(func(effect Effect) {
		if effect.Failure && effect.Resource == resource {
			n++
		}
	})
	return n, err
}

func (e *effects) scan(each func(Effect)) error {
	text, err := os.ReadFile(e.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			return nil // being written
		}
		var effect Effect
		if err := json.Unmarshal(line, &effect); err != nil {
			return fmt.Errorf("%s is damaged: %w", e.path, err)
		}
		each(effect)
	}
	return nil
}
