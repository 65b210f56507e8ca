package boot

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"writ/efi/progress"
	"writ/internal/sleep"
)

// readyLimit is how long the start waits for a service.
var readyLimit = progress.Limit{Most: 30 * time.Second, Then: "the start continues without it"}

// serviceStage runs the services of the image.
type serviceStage struct {
	*Machine
	reporter
	programs *programs
	logs     *logs
	running  sync.WaitGroup
}

// start starts the services of the image in order, each after the previous one is ready. It continues without a service
// that does not become ready: the runner reports the affected drivers, and the console shows the cause. Services run
// until ctx ends. If the context `starting` ends, start returns before all services are started.
func (v *serviceStage) start(ctx, starting context.Context) {
	services, err := readServices(ServicesAt)
	if err != nil {
		v.Fail(progress.StageService, err)
	}
	for _, s := range services {
		v.running.Go(func() { v.keep(ctx, s) })
		switch {
		case s.Socket == "":
		case v.becomesReady(starting, s):
			v.Stage(progress.StageService, "%s is ready", s.Name)
		case starting.Err() != nil:
			return
		default:
			v.Fail(progress.StageService, fmt.Errorf("%s does not answer at %s within %s; %s", s.Name, s.Socket,
				readyLimit.Most, readyLimit.Then))
		}
	}
}

// becomesReady waits until a service accepts connections at its socket and reports whether it does.
func (v *serviceStage) becomesReady(ctx context.Context, s Service) bool {
	v.Waits(progress.StageService, "waits until "+s.Name+" answers at "+s.Socket, readyLimit)
	ctx, cancel := context.WithTimeout(ctx, readyLimit.Most)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", s.Socket)
		if err == nil {
			conn.Close()
			return true
		}
		if sleep.For(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
}

// keep runs a service until ctx ends and restarts it when it exits. Of its output, only the last line before an exit is
// shown.
func (v *serviceStage) keep(ctx context.Context, s Service) {
	for wait := time.Duration(0); ; {
		began := time.Now()
		var last atomic.Pointer[string]
		status, err := v.programs.run(ctx, s.Name, s.Command, func(line string) {
			last.Store(&line)
			v.logs.service(s.Name, line)
		}, func(pid int) {
			v.Show(progress.StageService, fmt.Sprintf("%s started as process %d", s.Name, pid))
			v.service(s.Name, "")
		})
		if ctx.Err() != nil {
			return
		}
		how := "does not start"
		if err == nil {
			how = "ended with " + describe(status)
		}
		if said := last.Load(); said != nil {
			how += ": " + v.Redact(*said)
		} else if err != nil {
			how += ": " + err.Error()
		}
		wait = pause(wait, time.Since(began))
		v.service(s.Name, how)
		v.Show(progress.StageService, fmt.Sprintf("%s %s; starts again in %s", s.Name, how, wait))
		v.report(progress.Report{Stage: progress.StageService, Text: s.Name + " " + how, Failed: true})
		if sleep.For(ctx, wait) != nil {
			return
		}
	}
}
