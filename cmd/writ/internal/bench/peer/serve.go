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

// About describes a system.
type About struct {
	Name       string `json:"name"`       // including its version
	Durability string `json:"durability"` // the part of its state that survives a power failure, as text
}

// System runs orders.
type System interface {
	// About may be called at any time.
	About() About
	// Begin prepares an order. The time of Begin is not measured. end releases the resources of the order.
	Begin(ctx context.Context, o Order) (end func() error, err error)
	// Run submits run i of the latest order and returns when its end is known.
	Run(ctx context.Context, i int) error
}

// Answer is the result of an order.
type Answer struct {
	Took  Took   `json:"took"`
	Error string `json:"error,omitempty"`
}

// Serve runs orders until the input `in` ends. It writes the About of the system, then reads orders and writes one
// Answer per order. Each value is a line of JSON.
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

// CarryOut runs an order on a system in this process.
func CarryOut(ctx context.Context, s System, o Order) (took Took, err error) {
	end, err := s.Begin(ctx, o)
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, end()) }()
	return Drive(ctx, o, s.Run)
}

// Version returns the version of a module in this program, without its "v".
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
