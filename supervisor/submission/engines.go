package submission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"writ"
	"writ/scripts"
	"writ/supervisor/journal"
)

// namedRuns limits the runs that an error names for a missing engine.
const namedRuns = 5

// CheckEngines returns an error if an open run needs an engine that this program does not have. Another engine could
// give the script another meaning.
func CheckEngines(ctx context.Context, j *journal.Journal) error {
	return j.Read(ctx, func(tx *journal.Tx) error {
		engines, err := tx.OpenEngines()
		if err != nil {
			return fmt.Errorf("list the engines of open runs: %w", err)
		}
		have := scripts.Engines()
		for _, engine := range engines {
			if slices.Contains(have, engine) {
				continue
			}
			ids, err := tx.RunsOfEngine(engine, namedRuns+1)
			if err != nil {
				return fmt.Errorf("list the open runs of an engine: %w", err)
			}
			names := make([]string, len(ids))
			for i, id := range ids {
				names[i] = string(id)
			}
			if len(names) > namedRuns {
				names[namedRuns] = "and more"
			}
			return writ.Errorf(writ.CodeEngineUnsupported, "open runs need the engine %q, and this program has %q: %s", engine,
				have, strings.Join(names, ", ")).
				WithHint("start the program that was here before (`writ version` shows its engines) until these runs have " +
					"ended, or cancel them with it")
		}
		return nil
	})
}
