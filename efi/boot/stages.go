package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"writ/efi/progress"
)

// startStage is one stage of the start, with its latest report.
type startStage struct {
	stage, plan string // plan describes the stage before it is reached
	text        string
	failed      bool
	done        bool
	began       time.Duration // began and ended: from the start of the kernel
	ended       time.Duration
	wait        progress.Wait // zero if the stage does not wait
}

func (s *startStage) reached() bool { return s.done || s.failed || !s.wait.Since.IsZero() }

// stages returns the planned stages of a start with these settings, in order.
func (c *Config) stages(services []Service) (all stages) {
	network := startStage{stage: progress.StageNetwork, plan: "an address from DHCP or a router"}
	if len(c.Addresses) > 0 {
		network.plan = fmt.Sprint(c.Addresses[0]) + ", as configured"
	}
	data := startStage{stage: progress.StageData, plan: "in memory"}
	switch {
	case c.Disk != "":
		data.plan = "the disk with the serial number " + c.Disk
	case c.Data != "":
		data.plan = "the disk with the label " + c.Data
	}
	clock := startStage{stage: progress.StageClock, plan: "that of the hardware"}
	if len(c.TimeServers) > 0 {
		clock.plan = "asks for the time: " + strings.Join(c.TimeServers, " ")
	}
	all = stages{
		{stage: progress.StageStart}, {stage: progress.StageModules, plan: "drivers of the devices"},
		{stage: progress.StageWatchdog, plan: "restarts a machine that hangs"},
	}
	if c.Boot != "" {
		all = append(all, network, data)
	} else {
		all = append(all, data, network)
	}
	all = append(all, clock)
	if len(services) > 0 {
		names := make([]string, len(services))
		for i, s := range services {
			names[i] = s.Name
		}
		all = append(all, startStage{stage: progress.StageService, plan: strings.Join(names, ", ")})
	}
	return append(all,
		startStage{stage: progress.StageRunner, plan: "asks to join: " + strings.Join(c.Supervisors, " ")},
		startStage{stage: progress.StageJoined, plan: "serves, or waits until an admin approves it"})
}

// stages lists the stages of the start, in order.
type stages []startStage

// plan sets the planned stages and preserves the reports of stages that were already reached.
func (w *stages) plan(all stages) {
	told := *w
	*w = all
	for _, s := range told {
		s.plan = ""
		*w.at(s.stage) = s
	}
}

// at returns the stage with a name. An unplanned stage is inserted after the last reached stage.
func (w *stages) at(stage string) *startStage {
	i := slices.IndexFunc(*w, func(s startStage) bool { return s.stage == stage })
	if i < 0 {
		i = w.last() + 1
		*w = slices.Insert(*w, i, startStage{stage: stage})
	}
	return &(*w)[i]
}

// last returns the index of the last reached stage, or -1 before the first stage.
func (w stages) last() int {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i].reached() {
			return i
		}
	}
	return -1
}

// end returns when the latest finished stage ended.
func (w stages) end() (at time.Duration) {
	for _, s := range w {
		at = max(at, s.ended)
	}
	return at
}

// waits records the current wait of a stage. It has no effect on a finished stage. For example, the stage of the
// network is finished even if the second card waits for a cable.
func (w *stages) waits(stage string, now progress.Wait) {
	s := w.at(stage)
	if s.done {
		return
	}
	if !s.reached() {
		s.began = w.end()
	}
	now.Text = progress.Text(now.Text, progress.MaxText)
	s.wait = now
}

// note applies a report to its stage.
func (w *stages) note(r progress.Report, at time.Duration) {
	r = r.Clean()
	s := w.at(r.Stage)
	if !s.reached() {
		s.began = w.end()
	}
	s.text, s.failed = r.Text, r.Failed
	if !r.Failed && !s.done {
		s.done, s.ended, s.wait = true, at, progress.Wait{}
	}
}

// stop records that a stage waits for a person only.
func (w *stages) stop(stage string) { w.at(stage).wait = progress.Wait{} }

// took describes the duration of the start and of each stage. It returns "" before the node has joined.
func (w stages) took() string {
	i := slices.IndexFunc(w, func(s startStage) bool { return s.stage == progress.StageJoined && s.done })
	if i < 0 {
		return ""
	}
	var all []string
	for _, s := range w[:i+1] {
		if s.done {
			all = append(all, fmt.Sprintf("%s %.1f", s.stage, (s.ended-s.began).Seconds()))
		}
	}
	return fmt.Sprintf("in %.1f s: %s", w[i].ended.Seconds(), strings.Join(all, ", "))
}

// changeStages changes the stages of the start.
func (s *status) changeStages(change func(all *stages)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stages)
}

// reached schedules the page of the stages, in case the next stage takes long. The caller holds mu.
func (s *status) reached() {
	if s.starting() {
		s.next.in(startQuiet, s.showStages)
	}
}

// starting reports whether the page of the stages is the current page. The caller holds mu.
func (s *status) starting() bool {
	return !s.next.over && (!s.started.Load() || s.node.admission != nil && s.node.condition() == unknown)
}

// Limits of waits that end only when the supervisor answers or a person acts.
var (
	joinLimit     = progress.Limit{Then: "it asks until the supervisor answers"}
	approvalLimit = progress.Limit{Then: "an admin decides"}
)

// runnerAgain describes the restart after the pause of an exited runner.
const runnerAgain = "the runner starts again"
