package simulated

import (
	"context"
	"strings"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// runProgram simulates container.run. The effect in the file records that the program has run. The result depends only
// on the arguments, so it is not stored.
func runProgram(ctx context.Context, d *Driver, r *sal.Record[own], request sal.Request) (sal.Outcome, error) {
	args := request.Args.(*catalog.ContainerRun)
	if r != nil {
		if err := r.Owned(request); err != nil {
			return sal.Outcome{}, err
		}
		return sal.Outcome{}, refuse(request, &r.Own.State, "use another name")
	}
	ended, err := simulateProgram(args)
	if err != nil {
		return sal.Outcome{}, err
	}
	// For programs, the generation of an effect is the number of the attempt.
	ran, err := d.store.effects.hasAfter(request.UID, int64(request.Call.Known))
	if err != nil {
		return sal.Outcome{}, sal.HostError("read the effects", err)
	}
	if ran {
		return ended.Outcome(request, true)
	}
	for path, f := range args.Files {
		if _, err := f.Content(path); err != nil {
			return sal.Outcome{}, err
		}
	}
	if err := d.checkFormats(ctx, request); err != nil {
		return sal.Outcome{}, err
	}
	if err := checkDevices(d, args.Devices); err != nil {
		return sal.Outcome{}, err
	}
	defer using.drop(node(d.config.Dir), request.Resource)
	if err := using.claim(node(d.config.Dir), request.Resource, mounted(args.Volumes)); err != nil {
		return sal.Outcome{}, err
	}
	if err := takeTime(ctx, request, d.config.Speed); err != nil {
		return sal.Outcome{}, err
	}
	d.step("effect")
	if err := d.store.effects.add(newEffect(request, int64(request.Call.Number()))); err != nil {
		return sal.Outcome{}, sal.HostError("count the effect", err)
	}
	d.step("return the result")
	return ended.Outcome(request, true)
}

// simulateProgram returns the result of a program. It supports the commands of execute that need no input.
func simulateProgram(args *catalog.ContainerRun) (ended sal.Ended, err error) {
	if len(args.Command) == 0 {
		return sal.Ended{Stdout: simulatedLine("the program of the image") + "\n"}, nil
	}
	ended.Stdout = simulatedLine(strings.Join(args.Command, " ")) + "\n"
	switch args.Command[0] {
	case "false":
		ended.Exit = writ.Exit{Code: 1}
	case "printenv":
		if ended.Stdout, err = args.Env[args.Command[len(args.Command)-1]].Reveal(); err == nil {
			ended.Stdout += "\n"
		}
	}
	return ended, err
}
