package kusto_test

import (
	"context"
	"fmt"

	"kusto-agent/emulator"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/query"
	"kusto-agent/internal/kusto/wire"
)

// endpoint is a service on this machine, and a client of it.
func endpoint(o emulator.Options) (*emulator.Server, *query.Client) {
	s := emulator.New(o)
	url, err := s.Listen("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	c, err := wire.New(wire.Options{URL: url})
	if err != nil {
		panic(err)
	}
	return s, &query.Client{Client: c}
}

// One request is made, and the answer says in one word what it means.
func Example_ingest() {
	s, c := endpoint(emulator.Options{})
	defer s.Close()
	defer c.Close()
	s.Throttle(1)
	for range 2 {
		ans := c.Ingest(context.Background(), &kusto.Ingest{
			Database: "Logs", Table: "App", Format: "TXT", Body: []byte("a line\n"), RequestID: "example;1",
		})
		fmt.Println(ans.Verdict, ans.Status)
	}
	// Output:
	// throttled 429
	// accepted 200
}

// A query with a parameter, read into memory.
func Example_query() {
	s, c := endpoint(emulator.Options{})
	defer s.Close()
	defer c.Close()
	limit, err := query.ParseParameter("limit:long=2")
	if err != nil {
		panic(err)
	}
	var result query.Collector
	err = c.Query(context.Background(), &query.Query{
		Database: "Logs", Text: "print n = limit, text = 'as it is'", Parameters: []query.Parameter{limit},
	}, &result)
	if err != nil {
		panic(err)
	}
	for _, t := range result.Tables {
		for _, row := range t.Rows {
			for i, cell := range row {
				fmt.Println(t.Columns[i].Name, query.CellText(cell))
			}
		}
	}
	// Output:
	// n 2
	// text as it is
}
