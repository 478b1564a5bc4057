"""What a tiny random model of each architecture is made of, a file per kind. Holds no tests."""

from tests.models.recipes import dense, encoders, experts, recurrent
from tests.models.recipes.parts import Recipe

RECIPES: dict[str, Recipe] = {
    **dense.RECIPES,
    **experts.RECIPES,
    **recurrent.RECIPES,
    **encoders.RECIPES,
}
