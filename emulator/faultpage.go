package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// bareFault is Fault without its methods, so that reading its JSON does not
// come back to UnmarshalJSON.
type bareFault Fault

// faultJSON is Fault as JSON: durations are written as "1.5s".
type faultJSON struct {
	*bareFault
	Delay   duration `json:"delay,omitzero"`
	Trickle duration `json:"trickle,omitzero"`
}

type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

// MarshalJSON writes the form of the package documentation.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{(*bareFault)(&f), duration(f.Delay), duration(f.Trickle)})
}

// UnmarshalJSON reads the JSON form that MarshalJSON writes, with durations such as "1.5s". Unknown
// keys are errors. It does not check the values; see check.
func (f *Fault) UnmarshalJSON(data []byte) error {
	j := faultJSON{bareFault: (*bareFault)(f)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return fmt.Errorf("read fault: %w", err)
	}
	f.Delay, f.Trickle = time.Duration(j.Delay), time.Duration(j.Trickle)
	return nil
}

// scriptJSON is how /faults shows a fault at work.
type scriptJSON struct {
	ID    int   `json:"id"`
	Hits  int   `json:"hits"`
	Fault Fault `json:"fault"`
}

// getFaults answers with the faults in effect and how often each was applied, as a JSON list.
func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	list := []scriptJSON{}
	for _, sc := range s.faults.all() {
		list = append(list, scriptJSON{sc.id, sc.Hits(), sc.fault})
	}
	writeJSON(w, list)
}

// postFaults adds the fault, or the list of faults, in the body and answers with their ids. When one
// of them is invalid it adds none and answers with 400.
func (s *Server) postFaults(w http.ResponseWriter, r *http.Request) {
	list, err := readFaults(http.MaxBytesReader(w, r.Body, pageLimit))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ids := []int{}
	for _, f := range list {
		ids = append(ids, s.Fail(f).id)
	}
	writeJSON(w, map[string]any{"ids": ids})
}

// readFaults reads one fault or a list of them from JSON. The error names what is wrong with each
// invalid one.
func readFaults(r io.Reader) ([]Fault, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read faults: %w", err)
	}
	list := make([]Fault, 1)
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		err = json.Unmarshal(data, &list)
	} else {
		err = json.Unmarshal(data, &list[0])
	}
	for i := range list {
		err = errors.Join(err, list[i].check())
	}
	return list, err
}

func (s *Server) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	s.Recover()
	w.WriteHeader(http.StatusNoContent)
}

// deleteFault removes the fault with the id in the path; 404 when there is none.
func (s *Server) deleteFault(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		http.Error(w, "a fault's id is a number", http.StatusBadRequest)
		return
	}
	list := s.faults.all()
	i := slices.IndexFunc(list, func(sc *Script) bool { return sc.id == id })
	if i < 0 {
		http.Error(w, "no such fault", http.StatusNotFound)
		return
	}
	list[i].Remove()
	w.WriteHeader(http.StatusNoContent)
}
