package bootserver

import (
	"fmt"
	"time"

	"writ/efi/progress"
)

// Times within which even machines with slow firmware proceed. After such a time, the advice names possible causes.
const (
	scriptQuiet = 20 * time.Second // between the script and the request for the image
	loadQuiet   = 15 * time.Second // between two parts of the image
	sentQuiet   = 30 * time.Second // between the end of the image and the first report
	stageQuiet  = 30 * time.Second // between two stages
	joinQuiet   = time.Minute      // between the start of the runner and joining the datacenter
)

// startsInVain is the number of starts without joining after which the advice mentions them.
const startsInVain = 3

// Advice describes the progress of the machine. If the machine is late, it also names possible causes.
func (m Machine) Advice(now time.Time) string {
	advice := m.advice(now)
	if m.Ended != "" && m.Ended != m.Text {
		advice += "; " + m.Ended
	}
	if m.Starts >= startsInVain {
		advice += fmt.Sprintf(". It started %s within %s and did not join", times(m.Starts), duration(now.Sub(m.began)))
		// If the kernel panics before writ runs, the machine restarts forever.
		if m.Step == StepLoading || m.Step == StepSent {
			advice += ", and sends no reports now: if its console shows that its kernel panics, start another image"
		}
	}
	return advice
}

// assignmentAdvice explains why the settings of a machine are not in force. It returns "" if the settings are in force.
func assignmentAdvice(state string) string {
	switch state {
	case AssignmentWaits:
		return ". Its settings have changed: they take effect at its next start"
	case AssignmentIgnored:
		return ". It did not start with the settings of its script: its firmware ignores the command line, or its image is too old"
	}
	return ""
}

func (m Machine) advice(now time.Time) string {
	since := now.Sub(m.Since)
	ago := duration(since)
	switch {
	case m.Failed:
		return m.failure(ago)
	// If the whole image was sent more than sentQuiet ago, a later attempt of iPXE has started the image.
	case m.Failures > 0 && !(m.Step == StepSent && since > sentQuiet):
		return fmt.Sprintf("iPXE could not load or start the image, %s: see its screen for the error. It tries again every 10 s", times(m.Failures))
	}
	switch m.Step {
	case StepScript:
		return late(since > scriptQuiet, "asked for its script "+ago+" ago",
			"but not for the image: check its screen, and whether it reaches the address of the image")
	case StepLoading:
		silent := now.Sub(m.Heard)
		return late(silent > loadQuiet, fmt.Sprintf("%s of %s MiB sent", mib(m.Sent), mib(m.Size)),
			"and no more for "+duration(silent)+": check its network, and whether it is on")
	case StepSent:
		return late(since > sentQuiet, "image sent "+ago+" ago",
			"no report since: check its console, and check DHCP and the route to this server")
	case progress.StageNetwork:
		return late(since > stageQuiet, "has an address for "+ago, "no report since: its time servers may not answer")
	case progress.StageRunner:
		return late(since > joinQuiet, "runner for "+ago+withText(m.Text),
			"it has not joined: check the address of the supervisor, the route and the clock")
	case progress.StageWaits:
		return "waits for an admin: its console shows the command that approves it"
	case progress.StageJoined:
		return "joined " + ago + " ago; see `writ node list`"
	}
	return late(since > stageQuiet, m.Step+" "+ago+" ago"+withText(m.Text), "no report since: check its console")
}

// failure describes a failed stage and its remedy.
func (m Machine) failure(ago string) string {
	text := m.Step + ": " + m.Text
	if m.Held {
		text = "held at " + m.Step + " for " + ago + ": " + m.Text
	}
	if m.Next != "" {
		text += ". Next: " + m.Next
	}
	return text
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func late(is bool, text, why string) string {
	if is {
		return text + ", " + why
	}
	return text
}

func withText(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// duration formats a duration in whole units.
func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
}
