"""What the property test stands on."""

import pytest

pytest.register_assert_rewrite("tests.property.machine")
