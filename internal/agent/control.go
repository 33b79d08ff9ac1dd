package agent

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"kusto-agent/internal/custody"
	"kusto-agent/internal/record"
	"kusto-agent/internal/telemetry"
	"kusto-agent/tail"
)

// control returns the server of the control socket in state_dir, over which commands such as files,
// tap and spool rm ask the agent. It does not listen yet.
func (a *Agent) control() *telemetry.Control {
	return telemetry.NewControl(telemetry.ControlOptions{
		Dir: a.Config.StateDir, Status: a.telemetry.ServeStatus, Files: a.listFiles, Inputs: a.tapInputs, Tap: a.openTap,
		Do: custody.Serve(a), Logger: a.Log,
	})
}

// listFiles returns the status of every file; with all also of files that are gone but still known,
// or that exclude patterns leave out. If a file is behind and its route is held or down, its Why
// says so.
func (a *Agent) listFiles(_ context.Context, all bool) ([]telemetry.File, error) {
	held := a.heldInputs()
	files := fileStatuses(a.tail.Listing(all))
	for i := range files {
		if why := held[files[i].Input]; why != "" && files[i].BehindBytes > 0 {
			files[i].Why = strings.TrimPrefix(files[i].Why+"; "+why, "; ")
		}
	}
	return files, nil
}

// heldInputs returns for each input, by its name, why its route is down or held; "" if it is
// neither.
func (a *Agent) heldInputs() map[string]string {
	why := make(map[record.Route]string)
	routes, _ := a.sender.Status()
	for _, r := range routes {
		if r.Hold != nil && r.State != telemetry.Retrying {
			why[r.Route] = "its route is " + r.State + ": " + cmp.Or(r.Hold.Code, r.Hold.Message)
		}
	}
	inputs := make(map[string]string)
	for _, in := range a.tail.Inputs() {
		inputs[in.Name] = why[in.Route]
	}
	return inputs
}

// fileStatus converts the tailer's status of a file to that of the control socket and the status
// page. now is the time from which the age of bytes that are not yet safe is counted.
func fileStatus(f tail.FileStatus, now time.Time) telemetry.File {
	out := telemetry.File{
		Input: f.File.Input, Generation: f.File.Generation, Path: record.Spell(f.Path),
		Size: f.Size, Read: f.Read, Safe: f.Safe, BehindBytes: max(f.Size-f.Safe, 0), Pinned: f.Pinned,
		State: f.State(), Why: f.Why, Fix: f.Fix,
	}
	if f.File.ID != 0 {
		out.ID = f.File.ID.String()
	}
	if f.Unread != "" {
		out.BehindBytes = 0 // no input reads the file, so nothing of it is still to be sent
	}
	if !f.Waits.IsZero() {
		out.BehindSeconds = max(now.Sub(f.Waits), 0).Round(time.Millisecond).Seconds()
	}
	return out
}

// tapInputs returns all inputs with their names, for "kusto-agent tap". Of Avro inputs a tap shows
// only whole blocks.
func (a *Agent) tapInputs() (all []telemetry.TapInput) {
	for _, in := range a.tail.Inputs() {
		all = append(all, telemetry.TapInput{Name: in.Name, Blocks: in.Format == record.Avro})
	}
	return all
}

// openTap starts a tap: a stream of the records of these inputs as they are read. It also returns
// how many taps may be open at a time; the error is telemetry.ErrTaps if that many are open.
func (a *Agent) openTap(inputs []string) (telemetry.Tap, int, error) {
	t, err := a.tail.Tap(inputs...)
	if errors.Is(err, tail.ErrTaps) {
		err = telemetry.ErrTaps
	}
	if err != nil {
		return nil, tail.MaxTaps, err
	}
	return tapped{t}, tail.MaxTaps, nil
}

// tapped makes a tap of tail one of telemetry.
type tapped struct{ *tail.Tap }

// Next waits for records of the tap and calls each for every one of them, until each fails. A whole
// Avro block comes as one record, with the number of records in it.
func (t tapped) Next(ctx context.Context, each func(telemetry.TapRecord) error) error {
	return t.Tap.Next(ctx, func(p *tail.Passed) error {
		r := telemetry.TapRecord{
			Input: p.File.Input, File: p.File.ID.String(), Generation: p.File.Generation, Path: record.Spell(p.Path),
			Offset: p.Offset, Length: p.Length, Data: p.Data,
		}
		if p.Block {
			r.Records = p.Records
		}
		return each(r)
	})
}
