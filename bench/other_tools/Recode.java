// Recoding by ARX: optimal generalisation of adult with k = 5 and ARX's metric Loss, beside bench/studies/recoding.py.
//
//   java -cp libarx.jar bench/other_tools/Recode.java ADULT_FOLDER SUPPRESSION_LIMIT
//
// The folder is that of GPUANON_DATA: adult_train_complete_30162.csv and hierarchies/adult_hierarchy_*.csv.  Prints one
// line of JSON: seconds of the search and the release, records suppressed, the score of the optimum, its node.
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.deidentifier.arx.ARXAnonymizer;
import org.deidentifier.arx.ARXConfiguration;
import org.deidentifier.arx.ARXResult;
import org.deidentifier.arx.AttributeType;
import org.deidentifier.arx.AttributeType.Hierarchy;
import org.deidentifier.arx.Data;
import org.deidentifier.arx.DataHandle;
import org.deidentifier.arx.criteria.KAnonymity;
import org.deidentifier.arx.metric.Metric;

public class Recode {
    private static final String[] QUASI = {"sex", "age", "race", "marital-status", "education", "native-country",
        "workclass", "occupation", "income"};

    public static void main(String[] given) throws Exception {
        Data data = Data.create(given[0] + "/adult_train_complete_30162.csv", StandardCharsets.UTF_8, ',');
        DataHandle columns = data.getHandle();
        for (int at = 0; at < columns.getNumColumns(); at++) {
            data.getDefinition().setAttributeType(columns.getAttributeName(at), AttributeType.INSENSITIVE_ATTRIBUTE);
        }
        for (String name : QUASI) {
            String file = "/hierarchies/adult_hierarchy_" + (name.equals("income") ? "salary-class" : name) + ".csv";
            data.getDefinition().setAttributeType(name, Hierarchy.create(given[0] + file, StandardCharsets.UTF_8, ';'));
        }
        ARXConfiguration rules = ARXConfiguration.create();
        rules.addPrivacyModel(new KAnonymity(5));
        rules.setSuppressionLimit(Double.parseDouble(given[1]));
        rules.setQualityModel(Metric.createLossMetric());
        long began = System.nanoTime();
        ARXResult found = new ARXAnonymizer().anonymize(data, rules);
        DataHandle release = found.getOutput(false);
        double seconds = (System.nanoTime() - began) * 1e-9;
        int suppressed = 0;
        for (int row = 0; row < release.getNumRows(); row++) {
            suppressed += release.isOutlier(row) ? 1 : 0;
        }
        System.out.printf("{\"seconds\": %.2f, \"suppressed\": %d, \"score\": \"%s\", \"node\": \"%s\"}%n", seconds,
            suppressed, found.getGlobalOptimum().getHighestScore(),
            Arrays.toString(found.getGlobalOptimum().getTransformation()));
    }
}
