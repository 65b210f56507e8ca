package peer

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
)

// Offer names a system that a program can start for the benchmark. Name is the argument that selects the system.
// Missing is the reason why it is unavailable on this machine, or "".
type Offer struct {
	Name    string `json:"name"`
	Missing string `json:"missing,omitempty"`
}

// Offers is the output of a program that runs without arguments.
type Offers struct {
	Systems []Offer `json:"systems"`
}

// Settings configures a system.
type Settings struct {
	Dir   string // existing, empty directory for its files
	Slots int    // concurrent calls
}

// Kind is an Offer and the function that starts its system. close stops all that Open started.
type Kind struct {
	Offer
	Open func(ctx context.Context, s Settings) (system System, close func() error, err error)
}

// Program is the main function of a program that offers systems. Without arguments it lists the systems. With the name
// of a system as argument, it serves this system.
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
		return fmt.Errorf("unknown system %q", args[0])
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
