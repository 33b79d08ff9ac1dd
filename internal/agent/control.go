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

// control is what answers on the socket in state_dir.
func (a *Agent) control() *telemetry.Control {
	return telemetry.NewControl(telemetry.ControlOptions{
		Dir: a.Config.StateDir, Status: a.telemetry.ServeStatus, Files: a.listFiles, Inputs: a.tapInputs, Tap: a.openTap,
		Do: custody.Serve(a), Logger: a.Log,
	})
}

// listFiles tells of every file what there is to tell.
func (a *Agent) listFiles(_ context.Context, all bool) ([]telemetry.File, error) {
	now := time.Now()
	held := a.heldInputs()
	var files []telemetry.File
	for _, f := range a.tail.Listing(all) {
		out := fileStatus(f, now)
		if why := held[f.File.Input]; why != "" && out.BehindBytes > 0 {
			out.Why = strings.TrimPrefix(out.Why+"; "+why, "; ")
		}
		files = append(files, out)
	}
	return files, nil
}

// heldInputs says why what is read of an input is not accepted, by its name.
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

// fileStatus is a file for people and for JSON.
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
		out.BehindBytes = 0 // nobody owes it
	}
	if !f.Waits.IsZero() {
		out.BehindSeconds = max(now.Sub(f.Waits), 0).Round(time.Millisecond).Seconds()
	}
	return out
}

func (a *Agent) tapInputs() (all []telemetry.TapInput) {
	for _, in := range a.tail.Inputs() {
		all = append(all, telemetry.TapInput{Name: in.Name, Blocks: in.Format == record.Avro})
	}
	return all
}

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
