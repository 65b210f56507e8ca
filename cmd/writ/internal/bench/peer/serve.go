package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// About is what a system says of itself.
type About struct {
	Name       string `json:"name"`       // with its version
	Durability string `json:"durability"` // what of its state a power failure does not take, in words
}

// System carries out runs.
type System interface {
	// About may be called at any time.
	About() About
	// Begin is called before the runs of an order, and is not measured; end lets go of what it began.
	Begin(ctx context.Context, o Order) (end func() error, err error)
	// Run hands in a run of the order that was begun last and returns when its end is known. i counts the runs of the order.
	Run(ctx context.Context, i int) error
}

// Answer is what a system in a process of its own says to an order.
type Answer struct {
	Took  Took   `json:"took"`
	Error string `json:"error,omitempty"`
}

// Serve answers orders until in ends: it writes what the system says of itself, and then an answer for each order that it reads, all as
// JSON, a value a line.
func Serve(ctx context.Context, s System, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(s.About()); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	for {
		var o Order
		switch err := orders.Decode(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read an order: %w", err)
		}
		var answer Answer
		var err error
		if answer.Took, err = CarryOut(ctx, s, o); err != nil {
			answer.Error = err.Error()
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
}

// CarryOut has a system in this process carry out an order.
func CarryOut(ctx context.Context, s System, o Order) (took Took, err error) {
	end, err := s.Begin(ctx, o)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return Drive(ctx, o, s.Run)
}

// Version returns the version of a module that this program is built with, without its "v".
func Version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}
