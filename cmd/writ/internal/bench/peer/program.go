package peer

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
)

// Offer is what a program of systems says of one: its name, which is the program's argument to be it, and why it cannot be here, "" if it
// can.
type Offer struct {
	Name    string `json:"name"`
	Missing string `json:"missing,omitempty"`
}

// Offers is the answer of a program that is asked without arguments.
type Offers struct {
	Systems []Offer `json:"systems"`
}

// Settings is what each system of a program is told.
type Settings struct {
	Dir   string // for its files; it is there and empty
	Slots int    // calls at a time
}

// Kind is a system that a program offers. Open starts it; close ends everything that it started.
type Kind struct {
	Offer
	Open func(ctx context.Context, s Settings) (system System, close func() error, err error)
}

// Program is the main function of a program that offers systems: without arguments it lists them, with the name of one it serves.
func Program(ctx context.Context, kinds []Kind, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) == 0 {
		var offers Offers
		for _, k := range kinds {
			offers.Systems = append(offers.Systems, k.Offer)
		}
		return json.NewEncoder(out).Encode(offers)
	}
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == args[0] })
	if i < 0 {
		return fmt.Errorf("there is no system %q", args[0])
	}
	var s Settings
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&s.Dir, "dir", "", "directory for its files")
	flags.IntVar(&s.Slots, "slots", 64, "calls at a time")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	system, end, err := kinds[i].Open(ctx, s)
	if err != nil {
		return fmt.Errorf("start %s: %w", args[0], err)
	}
	err = Serve(ctx, system, in, out)
	if failed := end(); err == nil {
		err = failed
	}
	return err
}
