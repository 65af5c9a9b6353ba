package status

import "testing"

// TestPlain shows a text of the service with and without its form.
func TestPlain(t *testing.T) {
	t.Parallel()
	e := Service("The path '%s' is <not> valid.", `/"a"`)
	if got, want := e.Plain(), `The path '/"a"' is <not> valid.`; got != want {
		t.Errorf("Plain() = %q, want %q", got, want)
	}
	if e.Code != CodeBadRequest || e.Message == e.Plain() {
		t.Errorf("Service returned %+v", e)
	}
	for _, text := range []string{"As it is.", "{not JSON", `{"Errors":[]}`} {
		if got := New(CodeConflict, 0, "%s", text).Plain(); got != text {
			t.Errorf("Plain() = %q, want %q", got, text)
		}
	}
}
