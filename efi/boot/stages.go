package boot

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"writ/efi/progress"
)

// stageModules is the stage in which the drivers of devices are loaded.
const stageModules = "modules"

// startStage is a part of the way from the kernel to a node, with what was told of it last.
type startStage struct {
	stage, plan string // plan is what it does, for as long as it was not reached
	text        string
	failed      bool
	done        bool
	began       time.Duration // since the kernel started, as is ended
	ended       time.Duration
	wait        wait // has no time if the stage waits for nothing that is known
}

func (s *startStage) reached() bool { return s.done || s.failed || !s.wait.since.IsZero() }

// stages are those of a start with these settings, in their order.
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
	all = stages{{stage: progress.StageStart}, {stage: stageModules, plan: "drivers of the devices"}, {stage: progress.StageWatchdog, plan: "restarts a machine that hangs"}}
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
	return append(all, startStage{stage: progress.StageRunner, plan: "asks to join: " + strings.Join(c.Supervisors, " ")},
		startStage{stage: progress.StageJoined, plan: "serves, or waits until an admin approves it"})
}

// stages are the way of a machine from its kernel to a node.
type stages []startStage

// plan says which stages there are. Of those that were reached already it keeps what was told.
func (w *stages) plan(all stages) {
	told := *w
	*w = all
	for _, s := range told {
		s.plan = ""
		*w.at(s.stage) = s
	}
}

// at is the one with this name. One that was not planned comes behind those that were reached.
func (w *stages) at(stage string) *startStage {
	i := slices.IndexFunc(*w, func(s startStage) bool { return s.stage == stage })
	if i < 0 {
		i = w.last() + 1
		*w = slices.Insert(*w, i, startStage{stage: stage})
	}
	return &(*w)[i]
}

// last is the last stage that was reached, -1 if none was.
func (w stages) last() int {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i].reached() {
			return i
		}
	}
	return -1
}

// end is when the last stage that is done was.
func (w stages) end() (at time.Duration) {
	for _, s := range w {
		at = max(at, s.ended)
	}
	return at
}

// waits notes what a stage waits for. One that is done waits for nothing, as a network whose second card has no cable.
func (w *stages) waits(stage string, now wait) {
	s := w.at(stage)
	if s.done {
		return
	}
	if !s.reached() {
		s.began = w.end()
	}
	now.text = progress.Text(now.text, progress.MaxText)
	s.wait = now
}

// note takes what is told of a stage.
func (w *stages) note(r progress.Report, at time.Duration) {
	r = r.Clean()
	s := w.at(r.Stage)
	if !s.reached() {
		s.began = w.end()
	}
	s.text, s.failed = r.Text, r.Failed
	if !r.Failed && !s.done {
		s.done, s.ended, s.wait = true, at, wait{}
	}
}

// stop notes that a stage waits for a person, and for nothing else.
func (w *stages) stop(stage string) { w.at(stage).wait = wait{} }

// took says how long the start took, and each of its stages. It is "" if the machine is no node yet.
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

// plan says which stages the start has.
func (s *status) plan(all stages) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stages.plan(all)
}

// reached says that the machine goes through the stages, and has them shown if the next one takes long. The caller holds mu.
func (s *status) reached() {
	if s.starting() {
		s.showIn(startQuiet, s.showStages)
	}
}

// starting reports whether the page of the stages is the one to show. The caller holds mu.
func (s *status) starting() bool {
	return !s.over && (!s.started.Load() || s.admission != nil && s.condition() == unknown)
}
