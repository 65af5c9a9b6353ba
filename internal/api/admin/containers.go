package admin

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/decandb/decan/internal/auth"
	"github.com/decandb/decan/internal/engine"
	"github.com/decandb/decan/internal/status"
	"github.com/decandb/decan/internal/value"
)

// headerPartitions can replace the query parameter partitions.
const headerPartitions = "X-Decan-Partition-Count"

// createContainer answers POST /containers?database=D&partitions=N. The body is the
// definition of the container, as on the data plane. The parameters throughput=RUS and
// autoscale=RUS set its throughput.
func (h *handler) createContainer(hw http.ResponseWriter, hr *http.Request, caller auth.Caller) error {
	query := hr.URL.Query()
	req := engine.ContainerRequest{Link: engine.Link{Database: query.Get("database")}}
	if req.Link.Database == "" {
		return status.BadRequest("Give the database: /containers?database=D&partitions=N.")
	}
	count := query.Get("partitions")
	if count == "" {
		count = hr.Header.Get(headerPartitions)
	}
	if count != "" {
		n, err := number("partitions", count)
		if err != nil {
			return err
		}
		req.Partitions = n
	}
	if text := query.Get("throughput"); text != "" {
		n, err := number("throughput", text)
		if err != nil {
			return err
		}
		req.Throughput.Manual = &n
	}
	if text := query.Get("autoscale"); text != "" {
		n, err := number("autoscale", text)
		if err != nil {
			return err
		}
		req.Throughput.AutoscaleMax = &n
	}
	var err error
	if req.Body, err = h.readObject(hw, hr); err != nil {
		return err
	}
	res, err := h.engine.CreateContainer(hr.Context(), caller, req)
	if err != nil {
		return err
	}
	writeJSON(hw, http.StatusCreated, res.Body)
	return nil
}

func number(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, status.BadRequest("The parameter %s=%q is not a positive number.", name, text)
	}
	return n, nil
}

// readObject reads the body as a JSON object. The limit of its size is that of the data
// plane.
func (h *handler) readObject(hw http.ResponseWriter, hr *http.Request) (value.Value, error) {
	body, err := h.readBody(hw, hr)
	if err != nil {
		return value.Value{}, err
	}
	return parseObject(body)
}

// optionalObject is readObject for requests that may have no body: it then returns an
// empty object.
func (h *handler) optionalObject(hw http.ResponseWriter, hr *http.Request) (value.Value, error) {
	body, err := h.readBody(hw, hr)
	if err != nil || len(body) == 0 {
		return value.Object(nil), err
	}
	return parseObject(body)
}

func (h *handler) readBody(hw http.ResponseWriter, hr *http.Request) ([]byte, error) {
	source := &countedReader{from: http.MaxBytesReader(hw, hr.Body, int64(h.limits.BodyBytes)), memory: h.memory}
	defer source.release()
	body, err := io.ReadAll(source)
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &tooLarge):
		return nil, status.TooLarge("Request size is too large: the body is longer than %d bytes.", h.limits.BodyBytes)
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, status.New(status.CodeRequestTimeout, 0, "The body did not arrive in time.")
	case status.From(err) != nil:
		return nil, err
	case err != nil:
		return nil, status.BadRequest("The body is shorter than its announced length.")
	}
	return body, nil
}

// countedReader counts the bytes of a body while it arrives: only then can a client
// delay the request.
type countedReader struct {
	from   io.Reader
	memory Memory // nil for no limit
	taken  int
}

// Read reads more of the body, or returns the refusal.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.memory != nil {
		if !c.memory.Take(n, c.taken+n) {
			return 0, c.memory.Refusal()
		}
		c.taken += n
	}
	return n, err
}

func (c *countedReader) release() {
	if c.memory != nil {
		c.memory.Release(c.taken)
	}
}

func parseObject(body []byte) (value.Value, error) {
	object, err := value.Parse(body)
	if err != nil {
		return value.Value{}, status.BadRequest("The body is not valid JSON: %s.", err)
	}
	if object.Kind() != value.KindObject {
		return value.Value{}, status.BadRequest("The body must be a JSON object, not a JSON %s.", object.Kind())
	}
	return object, nil
}

// misplaced refuses a body that has a member of an inner object in one of the outer
// objects, where it would be ignored although the answer is a success. path leads to the
// inner object.
func misplaced(body value.Value, path []string, members ...string) error {
	around := body
	for _, step := range path {
		for _, name := range members {
			if around.Get(name).IsDefined() {
				return status.BadRequest("The property '%s' belongs in %s.", name, strings.Join(path, "."))
			}
		}
		around = around.Get(step)
	}
	return nil
}
