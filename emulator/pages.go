package emulator

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"kusto-agent/emulator/internal/mgmt"
)

// pageLimit bounds the bodies of /faults and /schema.
const pageLimit = 16 << 20

// routes returns the handler of the pages that are not part of the service: tables, rows, counts,
// requests, faults and schema.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.getIndex)
	mux.HandleFunc("GET /rows", s.getRows)
	mux.HandleFunc("GET /counts", s.getCounts)
	mux.HandleFunc("GET /requests", s.getRequests)
	mux.HandleFunc("GET /faults", s.getFaults)
	mux.HandleFunc("POST /faults", s.postFaults)
	mux.HandleFunc("DELETE /faults", s.deleteFaults)
	mux.HandleFunc("DELETE /faults/{id}", s.deleteFault)
	mux.HandleFunc("PUT /schema", s.putSchema)
	mux.HandleFunc("POST /schema/clear", s.clearSchema)
	return mux
}

// getRows streams the visible rows of a table, one per line: as JSON, or with format=text as they were
// sent.
func (s *Server) getRows(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	skip, err1 := number(q, "skip", 0)
	limit, err2 := number(q, "limit", -1)
	format := cmp.Or(q.Get("format"), "json")
	switch {
	case q.Get("db") == "" || q.Get("table") == "":
		http.Error(w, "want /rows?db=…&table=…", http.StatusBadRequest)
		return
	case cmp.Or(err1, err2) != nil || format != "json" && format != "text":
		http.Error(w, "skip and limit are numbers from 0 on, format is json or text", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", map[string]string{"json": "application/x-ndjson; charset=utf-8", "text": textType}[format])
	out := bufio.NewWriterSize(w, 64<<10)
	defer out.Flush() // an error means that the reader left
	for row := range s.All(q.Get("db"), q.Get("table"), skip) {
		if limit == 0 {
			return
		}
		limit-- // below 0 all are wanted
		line := row.Raw
		if format == "json" {
			var err error
			if line, err = row.MarshalJSON(); err != nil {
				return
			}
		}
		out.Write(line)                             // an error is returned by the next write
		if err := out.WriteByte('\n'); err != nil { // it means that the reader left
			return
		}
	}
}

// number reads the query parameter name as a whole number of at least 0; any other text is an error.
// It returns absent when the parameter is missing.
func number(q url.Values, name string, absent int) (int, error) {
	if !q.Has(name) {
		return absent, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 31)
	return int(n), err
}

// getCounts answers with the rows, requests and bytes of each table, and the totals.
func (s *Server) getCounts(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"tables": append([]TableCount{}, s.Tables()...), "totals": s.Totals()})
}

// getRequests answers with the last ingest requests, at most limit of them, the oldest first.
func (s *Server) getRequests(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r.URL.Query(), "limit", s.opt.KeepRequests)
	if err != nil {
		http.Error(w, "limit is a number from 0 on", http.StatusBadRequest)
		return
	}
	all := s.Requests()
	writeJSON(w, all[max(0, len(all)-limit):])
}

// putSchema replaces the schema by the one in the body; 400 when that is invalid. Ingestion sees it
// after SchemaDelay.
func (s *Server) putSchema(w http.ResponseWriter, r *http.Request) {
	schema, err := mgmt.LoadSchema(http.MaxBytesReader(w, r.Body, pageLimit))
	if err == nil {
		err = s.SetSchema(schema)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) clearSchema(w http.ResponseWriter, _ *http.Request) {
	s.ClearSchemaCache()
	w.WriteHeader(http.StatusNoContent)
}

// writeJSON answers with v as indented JSON.
func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", jsonType)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(v) // an error means that the reader left
}
